"""What an inference engine keeps on each device, one package for each engine."""
