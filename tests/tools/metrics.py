# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# metrics.py: reads metrics in OpenMetrics' text format from standard input by the parser of Prometheus' own library,
# which refuses what the format forbids, and prints each sample in a line: NAME LABEL=VALUE... = NUMBER. Exit status
# 77: the parser is not installed.
import sys

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    sys.exit(77)

for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        labels = "".join(f" {name}={value}" for name, value in sorted(sample.labels.items()))
        print(f"{sample.name}{labels} = {sample.value:g}")
