"""Statistics as pure functions on arrays, whatever the numbers measure."""

from stopwav.stats.bootstrap import (
    cluster_mean,
    cluster_percentiles,
    cluster_ratio,
    cluster_ratios,
    paired_ratio_difference,
    paired_ratio_p_value,
)
from stopwav.stats.estimate import UNDECIDED, Estimate, inverse, is_rough, pareto_set, scaled, side_of
from stopwav.stats.growth import FEWEST_POINTS, GrowthFit, Polynomial, fit_growth
from stopwav.stats.intervals import (
    median_interval,
    minimum_count,
    nearest_rank,
    percentile,
    summarise_rounds,
    t_interval,
    t_quantile,
)
from stopwav.stats.neighbours import implausible_cells
from stopwav.stats.outliers import ControlChart, Outliers, classify_outliers, control_chart
from stopwav.stats.rule import Rule, rule_text
from stopwav.stats.share import binomial_share
from stopwav.stats.verdict import (
    DEFAULT_THRESHOLD,
    LogRatio,
    Verdict,
    decide,
    paired_log_ratio,
    paired_verdict,
    unpaired_log_ratio,
)

__all__ = [
    "DEFAULT_THRESHOLD",
    "FEWEST_POINTS",
    "UNDECIDED",
    "ControlChart",
    "Estimate",
    "GrowthFit",
    "LogRatio",
    "Outliers",
    "Polynomial",
    "Rule",
    "Verdict",
    "binomial_share",
    "classify_outliers",
    "cluster_mean",
    "cluster_percentiles",
    "cluster_ratio",
    "cluster_ratios",
    "control_chart",
    "decide",
    "fit_growth",
    "implausible_cells",
    "inverse",
    "is_rough",
    "median_interval",
    "minimum_count",
    "nearest_rank",
    "paired_log_ratio",
    "paired_ratio_difference",
    "paired_ratio_p_value",
    "paired_verdict",
    "pareto_set",
    "percentile",
    "rule_text",
    "scaled",
    "side_of",
    "summarise_rounds",
    "t_interval",
    "t_quantile",
    "unpaired_log_ratio",
]
