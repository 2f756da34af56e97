"""The commands that judge the work: allowed, run, believed or not, and the proof by them."""
