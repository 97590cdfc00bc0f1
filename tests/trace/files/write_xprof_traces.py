#!/usr/bin/env python3
"""Writes the traces of XProf beside this file: two training steps of a small model on the CPU, by TensorFlow 2 and by JAX.

    pip install tensorflow-cpu==2.15.1 && python write_xprof_traces.py tensorflow FOLDER
    pip install jax==0.4.35 jaxlib==0.4.35 && python write_xprof_traces.py jax FOLDER
"""
import glob
import gzip
import os
import sys
import tempfile

STEPS = 2
SIZES = [64, 128, 128, 10]


def tensorflow_steps(folder):
    import tensorflow as tf
    names = [f"layer_{i}" for i in range(len(SIZES) - 2)] + ["head"]
    model = tf.keras.Sequential([tf.keras.layers.Dense(size, None if name == "head" else "relu", name=name)
                                 for name, size in zip(names, SIZES[1:])])
    optimizer = tf.keras.optimizers.Adam()
    x, y = tf.ones((32, SIZES[0])), tf.ones((32, SIZES[-1]))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    step()
    tf.profiler.experimental.start(folder)
    for number in range(STEPS):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            step()
    tf.profiler.experimental.stop()


def jax_steps(folder):
    import jax
    import jax.numpy as jnp
    from jaxlib import xla_client

    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")  # no paths of this machine

    def model(layers, x):
        with jax.named_scope("encoder"):
            for i, (weight, bias) in enumerate(layers[:-1]):
                with jax.named_scope(f"layer_{i}"):
                    x = jax.nn.relu(x @ weight + bias)
        with jax.named_scope("head"):
            return x @ layers[-1][0] + layers[-1][1]

    @jax.jit
    def step(layers, x, y):
        gradients = jax.grad(lambda layers: jnp.mean((model(layers, x) - y) ** 2))(layers)
        with jax.named_scope("sgd"):
            return jax.tree.map(lambda value, gradient: value - 0.1 * gradient, layers, gradients)

    keys = jax.random.split(jax.random.PRNGKey(0), len(SIZES) - 1)
    layers = [(0.1 * jax.random.normal(key, shape), jnp.zeros(shape[1]))
              for key, shape in zip(keys, zip(SIZES, SIZES[1:]))]
    x, y = jnp.ones((32, SIZES[0])), jnp.ones((32, SIZES[-1]))
    layers = jax.block_until_ready(step(layers, x, y))
    options = xla_client.profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = xla_client.profiler.ProfilerSession(options)
    for number in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            layers = jax.block_until_ready(step(layers, x, y))
    session.export(session.stop(), folder)


def main():
    framework, target = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "."
    with tempfile.TemporaryDirectory() as folder:
        {"tensorflow": tensorflow_steps, "jax": jax_steps}[framework](folder)
        for kind in ("xplane.pb", "trace.json.gz"):
            for found in glob.glob(f"{folder}/**/*.{kind}", recursive=True):
                text = open(found, "rb").read()
                if kind.endswith(".gz"):
                    text = gzip.decompress(text)
                path = os.path.join(target, f"xprof-{framework}.{kind.removesuffix('.gz')}.gz")
                with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as file:
                    file.write(text)
                print(f"{path}: {len(text)} bytes, {os.path.getsize(path)} in gzip")


if __name__ == "__main__":
    main()
