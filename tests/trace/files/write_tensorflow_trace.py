#!/usr/bin/env python3
"""Writes the TensorFlow trace beside this file: one training step of a small encoder in graph mode, on the CPU.

    pip install tensorflow-cpu && python write_tensorflow_trace.py FOLDER
"""
import gzip
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline

tf.disable_eager_execution()


def dense(x, units, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [x.shape[-1], units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)


batch = tf.placeholder(tf.float32, [4, 8], "batch")
with tf.variable_scope("bert/encoder"):
    x = batch
    for i in range(2):
        with tf.variable_scope(f"layer_{i}"):
            with tf.variable_scope("attention"):
                scores = tf.nn.softmax(tf.matmul(dense(x, 8, "query"), dense(x, 8, "key"), transpose_b=True))
                x = tf.matmul(scores, dense(x, 8, "value"))
            x = tf.tanh(dense(x, 8, "output"))
loss = tf.reduce_mean(tf.square(x), name="loss")
train = tf.train.AdamOptimizer(0.1).minimize(loss)

target = sys.argv[1] if len(sys.argv) > 1 else "."
config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    feed = {batch: [[0.1 * row + column for column in range(8)] for row in range(4)]}
    session.run(train, feed)
    metadata = tf.RunMetadata()
    session.run(train, feed, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
text = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(show_dataflow=True).encode()
path = os.path.join(target, "tensorflow-timeline.json.gz")
with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as file:
    file.write(text)
print(f"{path}: {len(text)} bytes, {os.path.getsize(path)} in gzip")
