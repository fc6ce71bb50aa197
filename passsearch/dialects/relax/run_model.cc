// Loads the network that build_model.py has built, runs it on the example inputs, and compares the outputs.
// Compile it with: python run_model.py --compile run_model
// Run it with:     ./run_model [FOLDER [FUNCTION]]

#include <chrono>

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#define BOOL_TYPE {kDLBool, 8, 1}
#include "loader_examples.h"

namespace ffi = tvm::ffi;

struct FreeMemory {
  void* memory;
  void AllocData(DLTensor* tensor) { tensor->data = memory; }
  void FreeData(DLTensor*) { std::free(memory); }
};

// One tensor, or nested tuples of them.
static void Flatten(const ffi::Any& value, std::vector<ffi::Tensor>* tensors) {
  if (auto tensor = value.try_cast<ffi::Tensor>()) {
    tensors->push_back(*tensor);
    return;
  }
  for (const ffi::Any& each : value.cast<ffi::Array<ffi::Any>>()) Flatten(each, tensors);
}

static int Run(const std::string& folder, const std::string& function) {
  Examples examples = ReadExamples(folder + "/examples" + (function == "main" ? "" : "/" + function));
  ffi::Module library = ffi::Module::LoadFromFile(folder + "/network.so");
  ffi::Module machine = library->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
  const int kPooledAllocator = 2;
  machine->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, kPooledAllocator);
  ffi::Function main = machine->GetFunction(function).value();

  std::vector<ffi::Tensor> inputs;
  std::vector<ffi::AnyView> arguments;
  for (Array& array : examples.inputs) {
    FreeMemory memory{AlignedCopy(array)};
    inputs.push_back(ffi::Tensor::FromNDAlloc(memory, ffi::ShapeView(array.shape.data(), array.shape.size()),
                                              TypeOf(array), DLDevice{kDLCPU, 0}));
  }
  for (const ffi::Tensor& tensor : inputs) arguments.emplace_back(tensor);
  ffi::Any result;
  main.CallPacked(ffi::PackedArgs(arguments.data(), arguments.size()), &result);  // the first run is slower
  auto start = std::chrono::steady_clock::now();
  main.CallPacked(ffi::PackedArgs(arguments.data(), arguments.size()), &result);
  std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;

  std::vector<ffi::Tensor> outputs;
  Flatten(result, &outputs);
  if (outputs.size() != examples.outputs.size()) throw std::runtime_error("The number of outputs is another one");
  std::vector<double> deviations;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ffi::ShapeView shape = outputs[i].shape();
    CheckShape(shape.data(), shape.size(), outputs[i].dtype(), examples.outputs[i]);
    deviations.push_back(Deviation(outputs[i].data_ptr(), examples.outputs[i]));
  }
  return Report(deviations, examples.tolerance, elapsed.count());
}

int main(int argc, char** argv) {
  try {
    return Run(argc > 1 ? argv[1] : "built", argc > 2 ? argv[2] : "main");
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
