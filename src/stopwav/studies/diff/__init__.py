"""The folder of `stopwav diff`."""
