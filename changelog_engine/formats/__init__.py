"""Records as text and bytes, one at a time: CSV lines, JSON and Avro values, as Flink's formats have them."""
