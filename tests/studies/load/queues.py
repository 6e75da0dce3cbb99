"""What queueing theory says of a queue with one server, Poisson arrivals and a mean service of one second."""

import math

import numpy as np

from stopwav.stats import nearest_rank

KINDS = ("M/D/1", "M/M/1")


def mean_wait(kind, load):
    """The mean wait, by Pollaczek and Khinchine."""
    return load / (1 - load) / (2 if kind == "M/D/1" else 1)


def wait_percentile(kind, load, share):
    """The wait that so large a share of the jobs does not exceed."""
    if kind == "M/M/1":
        return max(0.0, math.log(load / (1 - share)) / (1 - load))
    low, high = 0.0, 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _crommelin(load, middle) < share else (low, middle)
    return high


def _crommelin(load, wait):
    """The share of jobs of M/D/1 that wait no longer (Crommelin 1932)."""
    terms = ((load * (k - wait)) ** k / math.factorial(k) * math.exp(load * (wait - k)) for k in range(int(wait) + 1))
    return (1 - load) * math.fsum(terms)


def jobs(kind, load, count, seed):
    """When jobs arrive, and how long each takes."""
    generator = np.random.default_rng(seed)
    arrivals = np.cumsum(generator.exponential(1 / load, count))
    return arrivals, np.ones(count) if kind == "M/D/1" else generator.exponential(1.0, count)


def waits(arrivals, services):
    """The wait of each job, in the order of arrival (Lindley 1952): the work above its lowest level so far."""
    steps = np.append(0.0, services[:-1] - np.diff(arrivals))
    walk = np.cumsum(steps)
    return walk - np.minimum(np.minimum.accumulate(walk), 0.0)


def assert_as_theory(kind, load, measured, tolerance=0.05):
    """Fail where mean or P95 of the waits are further from theory."""
    p95 = wait_percentile(kind, load, 0.95)
    mean, measured_p95 = float(np.mean(measured)), nearest_rank(measured, 0.95)
    print(
        f"{kind} at {load:g}, {len(measured)} jobs: mean {mean:.3f}, theory {mean_wait(kind, load):.3f}; "
        f"P95 {measured_p95:.3f}, theory {p95:.3f}"
    )
    assert abs(mean / mean_wait(kind, load) - 1) <= tolerance
    assert abs(measured_p95 / p95 - 1) <= tolerance
