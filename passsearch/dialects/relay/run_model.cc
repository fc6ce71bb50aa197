// Loads the network that build_model.py has built, runs it on the example inputs, and compares the outputs.
// Compile it with: python run_model.py --compile run_model
// Run it with:     ./run_model [FOLDER]

#include <chrono>

#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#define BOOL_TYPE {kDLUInt, 1, 1}
#include "loader_examples.h"

using tvm::runtime::Module;
using tvm::runtime::NDArray;
using tvm::runtime::PackedFunc;

static int Run(const std::string& folder) {
  Examples examples = ReadExamples(folder + "/examples");
  Module kernels = Module::LoadFromFile(folder + "/kernels.so");
  const PackedFunc* create = tvm::runtime::Registry::Get("tvm.graph_executor.create");
  if (create == nullptr) throw std::runtime_error("This TVM runtime has no graph executor");
  Module executor = (*create)(ReadFile(folder + "/graph.json"), kernels, static_cast<int>(kDLCPU), 0);
  std::string parameters = ReadFile(folder + "/parameters.bin");
  TVMByteArray bytes{parameters.data(), parameters.size()};
  executor.GetFunction("load_params")(bytes);

  PackedFunc set_input = executor.GetFunction("set_input"), index = executor.GetFunction("get_input_index");
  for (size_t i = 0; i < examples.inputs.size(); ++i) {
    void* memory = AlignedCopy(examples.inputs[i]);
    DLTensor view = ViewOf(&examples.inputs[i], memory);
    // An input that nothing reads is not in the graph.
    if (static_cast<int>(index(examples.names[i])) >= 0) set_input(examples.names[i], &view);
    std::free(memory);  // set_input has copied it
  }
  PackedFunc run = executor.GetFunction("run");
  run();  // the first run is slower
  auto start = std::chrono::steady_clock::now();
  run();
  std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;

  int outputs = executor.GetFunction("get_num_outputs")();
  if (outputs != static_cast<int>(examples.outputs.size())) {
    throw std::runtime_error("The number of outputs is another one");
  }
  PackedFunc get_output = executor.GetFunction("get_output");
  std::vector<double> deviations;
  for (int i = 0; i < outputs; ++i) {
    NDArray output = get_output(i);
    CheckShape(output->shape, output->ndim, output->dtype, examples.outputs[i]);
    deviations.push_back(Deviation(output->data, examples.outputs[i]));
  }
  return Report(deviations, examples.tolerance, elapsed.count());
}

int main(int argc, char** argv) {
  try {
    return Run(argc > 1 ? argv[1] : "built");
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
