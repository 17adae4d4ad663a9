DROP TABLE IF EXISTS observations;
