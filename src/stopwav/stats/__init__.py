"""Statistics as pure functions on arrays: they know nothing of clocks, of speech, or of where a number came from."""

from stopwav.stats.bootstrap import (
    cluster_mean,
    cluster_percentiles,
    cluster_ratio,
    paired_ratio_difference,
    paired_ratio_p_value,
)
from stopwav.stats.estimate import Estimate
from stopwav.stats.intervals import median_interval, t_cdf, t_interval, t_quantile
from stopwav.stats.law import Law, Polynomial, fit_law
from stopwav.stats.outliers import Outliers, classify_outliers
from stopwav.stats.percentiles import minimum_count, nearest_rank, percentile
from stopwav.stats.ratio import LogRatio, paired_log_ratio, unpaired_log_ratio
from stopwav.stats.summary import summarise_rounds
from stopwav.stats.verdict import (
    DEFAULT_THRESHOLD,
    Kind,
    Verdict,
    decide,
    decide_all,
    holm,
    paired_verdict,
    unpaired_verdict,
)

__all__ = [
    "DEFAULT_THRESHOLD",
    "Estimate",
    "Kind",
    "Law",
    "LogRatio",
    "Outliers",
    "Polynomial",
    "Verdict",
    "classify_outliers",
    "cluster_mean",
    "cluster_percentiles",
    "cluster_ratio",
    "decide",
    "decide_all",
    "fit_law",
    "holm",
    "median_interval",
    "minimum_count",
    "nearest_rank",
    "paired_log_ratio",
    "paired_ratio_difference",
    "paired_ratio_p_value",
    "paired_verdict",
    "percentile",
    "summarise_rounds",
    "t_cdf",
    "t_interval",
    "t_quantile",
    "unpaired_log_ratio",
    "unpaired_verdict",
]
