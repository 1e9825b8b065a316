"""A member of a consumer group with kafka-python: prints every value, commits, and leaves upon SIGTERM."""

import signal
import sys

from kafka import KafkaConsumer

server, group, topic = sys.argv[1:4]
leaving = []
signal.signal(signal.SIGTERM, lambda *_: leaving.append(True))
consumer = KafkaConsumer(
    topic,
    bootstrap_servers=server,
    group_id=group,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    session_timeout_ms=6000,
    heartbeat_interval_ms=200,
)
while not leaving:
    polled = consumer.poll(timeout_ms=200)
    for messages in polled.values():
        for message in messages:
            print(message.value.decode(), flush=True)
    if polled:
        consumer.commit()
consumer.close()
