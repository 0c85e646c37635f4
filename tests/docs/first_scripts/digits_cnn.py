"""A convolutional network with batch normalization and Dropout, fitted with callbacks and validation data."""

import keras
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import autodist


def build():
    inputs = x = keras.Input((8, 8, 1))
    for filters in (8, 16):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.MaxPooling2D()(x)
    x = layers.Dropout(0.3)(layers.Flatten()(x))
    return keras.Model(inputs, layers.Dense(10)(x))


def main():
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype("float32").reshape(-1, 8, 8, 1)
    x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.2, random_state=1)
    model = build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])
    callbacks = [keras.callbacks.EarlyStopping(patience=3), keras.callbacks.CSVLogger("epochs.csv")]
    validation = (x_test, y_test)
    model.fit(x_train, y_train, batch_size=64, epochs=3, validation_data=validation, callbacks=callbacks, verbose=2)
    print(f"test loss {model.evaluate(x_test, y_test, verbose=0)[0]:.4f}")
    model.save("result.keras")


if __name__ == "__main__":
    with autodist.scope():
        main()
