"""Open inputs are bound, and inputs that do not fit are refused."""

from keras_network import Subclassed, input_shapes, make
from prelude import FOLDER, refusal, resolve

from passsearch.core import TensorType

image = TensorType((3, 8, 8, 3), "float32")
assert input_shapes(resolve(make(), inputs={"image": image}, batch=3, folder=FOLDER))["extra"] == [3, 5]
assert "has open dimensions; give its sizes" in refusal(make())
assert "Unknown input `imag`; did you mean `image`" in refusal(make(), inputs={"imag": image})
assert "does not declare its inputs; give each in order" in refusal(Subclassed())
assert input_shapes(resolve(Subclassed(), inputs={"x": TensorType((2, 4), "float32")}, folder=FOLDER)) == {"x": [2, 4]}
assert "Example inputs go with" in refusal(make(), example_inputs=(1,))
broken = Subclassed()
broken.dense = None
assert "Cannot freeze `keras_network.Subclassed`" in refusal(broken, inputs={"x": TensorType((2, 4), "float32")})
