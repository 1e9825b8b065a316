"""A member of a consumer group with confluent-kafka: prints every value, commits, and leaves upon SIGTERM."""

import signal
import sys

from confluent_kafka import Consumer

server, group, topic, strategy = sys.argv[1:5]
leaving = []
signal.signal(signal.SIGTERM, lambda *_: leaving.append(True))
consumer = Consumer({
    "bootstrap.servers": server,
    "group.id": group,
    "partition.assignment.strategy": strategy,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 200,
})
consumer.subscribe([topic])
while not leaving:
    message = consumer.poll(0.2)
    if message is None:
        continue
    if message.error() is not None:
        raise RuntimeError(message.error())
    print(message.value().decode(), flush=True)
    consumer.commit(message=message, asynchronous=True)
consumer.close()
