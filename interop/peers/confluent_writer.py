"""confluent-kafka, the librdkafka binding, as an idempotent writer that goes on until it is told to end.

usage: confluent_writer.py SERVER TOPIC. Each acknowledgement is printed as Kafka's VerifiableProducer prints it: a JSON object
a line. A record that was refused is printed too, and the exit status is 1.
"""

import json
import signal
import sys

from confluent_kafka import Producer

import jobs

BETWEEN_SECONDS = 0.005  # two records
IN_FLIGHT = 50

ended = refused = False


def end(*_):
    global ended
    ended = True


def delivered(err, msg):
    global refused
    name = "producer_send_success" if err is None else "producer_send_error"
    refused = refused or err is not None
    print(json.dumps({
        "name": name, "topic": msg.topic(), "partition": msg.partition(), "offset": msg.offset(),
        "value": msg.value().decode(), "message": None if err is None else str(err),
    }), flush=True)


def main(server, topic):
    signal.signal(signal.SIGTERM, end)
    producer = Producer({
        "bootstrap.servers": server,
        "enable.idempotence": True,
        "compression.type": "zstd",
        "linger.ms": 1,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 50,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 50,
        "message.timeout.ms": 600_000,
        "on_delivery": delivered,
    })
    sent = 0
    while not ended:
        if len(producer) < IN_FLIGHT:
            producer.produce(topic, value=str(sent))
            sent += 1
        producer.poll(BETWEEN_SECONDS)
    left = producer.flush(jobs.LIMIT_SECONDS)
    return 1 if left or refused else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
