"""`stopwav diff` and `stopwav gate`: what changed between runs, and is it more than noise."""
