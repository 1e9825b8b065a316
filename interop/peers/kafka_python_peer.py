"""kafka-python, the client in pure Python, as an interop peer."""

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

import jobs

# Versions before 2.1 cannot, and do not know the word.
CAN_BE_IDEMPOTENT = "enable_idempotence" in KafkaProducer.DEFAULT_CONFIG

# Version 2.0 now and then waits for ever for the answer to one of several requests of 20 MiB under way, which it has received: nothing
# is left in its socket, and the server waits for the next request.
ONE_AT_A_TIME = {"max_in_flight_requests_per_connection": 1}


def write(server, job, records):
    producer = KafkaProducer(
        bootstrap_servers=server,
        compression_type=None if job["codec"] == "none" else job["codec"],
        acks="all",
        linger_ms=50,
        batch_size=min(job["max_bytes"], 1_000_000),
        max_request_size=job["max_bytes"],
        request_timeout_ms=500 * jobs.LIMIT_SECONDS,  # counted from when a batch is made, whoever has the processor
        **({"enable_idempotence": job["idempotent"]} if CAN_BE_IDEMPOTENT else ONE_AT_A_TIME),
    )
    sent = [
        producer.send(job["topic"], key=r.key, value=r.value, headers=r.headers, partition=0, timestamp_ms=r.timestamp)
        for r in records
    ]
    producer.flush(jobs.LIMIT_SECONDS)
    for future in sent:
        future.get(timeout=1)
    producer.close()


def read(server, job, deadline):
    consumer = KafkaConsumer(
        bootstrap_servers=server,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=job["max_bytes"],
        check_crcs=True,
    )
    partition = TopicPartition(job["topic"], 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    records = []
    while len(records) < job["count"]:
        deadline.check()
        for m in consumer.poll(timeout_ms=1000).get(partition, []):
            records.append(jobs.Record(m.offset, m.timestamp, m.key, m.value, m.headers))
    consumer.close()
    return records


def admin(server, job):
    client = KafkaAdminClient(bootstrap_servers=server)
    client.create_topics([NewTopic(job["topic"], num_partitions=3, replication_factor=1)])
    described = client.describe_topics([job["topic"]])
    if len(described[0]["partitions"]) != 3:
        raise RuntimeError(f"{job['topic']}: {described}")
    client.delete_topics([job["topic"]])
    client.close()


jobs.run(write, read, admin)
