"""Real servers for tests and benchmarks: Kafka, PostgreSQL, MariaDB, RabbitMQ, Cassandra, Elasticsearch,
OpenSearch, Kinesis and an S3-compatible store.

``make servers`` fetches what is not installed. A server listens on 127.0.0.1 only, on a port of its own, and keeps its data
in a temporary folder. It ends with the process that started it, however that ends.

In tests use the fixtures of ``servers.fixtures``; elsewhere a server is a context manager: ``with KafkaServer() as kafka:``.
"""
