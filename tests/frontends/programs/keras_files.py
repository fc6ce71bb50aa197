"""A saved model gives the same network as the model in memory."""

from keras_network import make
from prelude import FOLDER, refusal, resolve

model = make()
for name in ("net.keras", "net.h5"):
    model.save(FOLDER / name)
    assert resolve(FOLDER / name, batch=2, folder=FOLDER).sha256 == resolve(model, batch=2, folder=FOLDER).sha256
    assert resolve(FOLDER / name, batch=2, folder=FOLDER).name == "net"
model.save_weights(FOLDER / "weights.h5")
(FOLDER / "broken.keras").write_text("no archive")
for name in ("weights.h5", "broken.keras"):
    assert "as a Keras model (" in refusal(FOLDER / name, batch=2)
