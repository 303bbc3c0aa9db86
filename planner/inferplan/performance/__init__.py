"""HOW FAST IT RUNS: operations → step time → serving (TTFT, TPOT, throughput, percentiles) → interval."""
