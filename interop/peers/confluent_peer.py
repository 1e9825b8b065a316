"""confluent-kafka, the librdkafka binding, as an interop peer."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import jobs


def write(server, job, records):
    failures = []

    def delivered(err, msg):
        if err is not None:
            failures.append(str(err))

    producer = Producer({
        "bootstrap.servers": server,
        "compression.type": job["codec"],
        "enable.idempotence": job["idempotent"],
        "acks": "all",
        "linger.ms": 50,
        "message.max.bytes": job["max_bytes"],
        "batch.size": job["max_bytes"],
        "on_delivery": delivered,
    })
    for r in records:
        producer.produce(job["topic"], key=r.key, value=r.value, headers=r.headers, partition=0, timestamp=r.timestamp)
    left = producer.flush(jobs.LIMIT_SECONDS)
    if left or failures:
        raise RuntimeError(f"{job['topic']}: {left} records left, failed: {failures[:3]}")


def read(server, job, deadline):
    consumer = Consumer({
        "bootstrap.servers": server,
        "group.id": "unused",  # librdkafka wants a name even for a consumer that is told its partitions
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.message.max.bytes": job["max_bytes"],
        "receive.message.max.bytes": 100_000_000,
        "check.crcs": True,
    })
    consumer.assign([TopicPartition(job["topic"], 0, 0)])
    records = []
    while len(records) < job["count"]:
        deadline.check()
        for m in consumer.consume(job["count"] - len(records), timeout=1):
            if m.error() is not None:
                raise RuntimeError(f"{job['topic']}: {m.error()}")
            records.append(jobs.Record(m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers()))
    consumer.close()
    return records


def admin(server, job):
    client = AdminClient({"bootstrap.servers": server})
    topic = NewTopic(job["topic"], num_partitions=3, replication_factor=1, config={"retention.ms": "60000"})
    client.create_topics([topic])[job["topic"]].result(jobs.LIMIT_SECONDS)
    listed = client.list_topics(timeout=jobs.LIMIT_SECONDS).topics
    if len(listed[job["topic"]].partitions) != 3:
        raise RuntimeError(f"{job['topic']} has {len(listed[job['topic']].partitions)} partitions")
    client.delete_topics([job["topic"]])[job["topic"]].result(jobs.LIMIT_SECONDS)


jobs.run(write, read, admin)
