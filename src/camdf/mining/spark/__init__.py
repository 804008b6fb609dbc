"""Mining and fitting on Spark: the rules of one machine, on tables that Spark reads."""
