"""stopwav in pytest: the fixture `stopwav`, conditions that explain themselves, and measuring alone under xdist."""
