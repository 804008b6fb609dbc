"""Mining on Spark by the rules of one machine, on tables that Spark reads, and samples that fit in one place."""
