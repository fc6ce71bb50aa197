// A graph executor of TVM's Relay, which runs one call at a time.
#ifndef MACHINE_H_
#define MACHINE_H_

#include <string>
#include <vector>

#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#define BOOL_TYPE {kDLUInt, 1, 1}
#include "checked_files.h"
#include "loader_examples.h"

// The kernels of a network and an executor that holds the parameters, which all machines share.
struct Weights {
  Weights(const Built& built, const std::string&) : graph(built.Read("graph.json")) {
    kernels = tvm::runtime::Module::LoadFromFile(built.Path("kernels.so"));
    first = Create();
    std::string parameters = built.Read("parameters.bin");
    first.GetFunction("load_params")(TVMByteArray{parameters.data(), parameters.size()});
    // Two numbers, then the names, then the arrays; a list begins with its length. To share reads no array.
    size_t end = 24;
    for (uint64_t left = Number(parameters, 16); left > 0; --left) end += 8 + Number(parameters, end);
    names = parameters.substr(0, end + 8);
  }

  tvm::runtime::Module Create() const {
    const tvm::runtime::PackedFunc* create = tvm::runtime::Registry::Get("tvm.graph_executor.create");
    if (create == nullptr) throw std::runtime_error("This TVM runtime has no graph executor");
    return (*create)(graph, kernels, static_cast<int>(kDLCPU), 0);
  }

  static uint64_t Number(const std::string& bytes, size_t place) {
    uint64_t number = 0;
    std::memcpy(&number, bytes.data() + place, sizeof(number));
    return number;
  }

  std::string graph, names;
  tvm::runtime::Module kernels, first;
};

class Machine {
 public:
  Machine(const Weights& weights, const std::vector<Input>& inputs) : executor_(weights.Create()) {
    executor_.GetFunction("share_params")(weights.first, TVMByteArray{weights.names.data(), weights.names.size()});
    set_input_ = executor_.GetFunction("set_input");
    run_ = executor_.GetFunction("run");
    get_output_ = executor_.GetFunction("get_output");
    number_ = executor_.GetFunction("get_num_outputs")();
    tvm::runtime::PackedFunc index = executor_.GetFunction("get_input_index");
    // An input that nothing reads is not in the graph, and its index is negative.
    for (const Input& input : inputs) indices_.push_back(index(input.name));
  }

  std::vector<Array> Run(const std::vector<Array>& arrays) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (indices_[i] < 0) continue;
      void* memory = AlignedCopy(arrays[i]);
      DLTensor view = ViewOf(arrays[i], memory);
      set_input_(indices_[i], &view);
      std::free(memory);  // set_input has copied it
    }
    run_();
    std::vector<Array> outputs;
    for (int i = 0; i < number_; ++i) {
      tvm::runtime::NDArray output = get_output_(i);
      outputs.push_back(ToArray(output->data, output->shape, output->ndim, output->dtype));
    }
    return outputs;
  }

 private:
  tvm::runtime::Module executor_;
  tvm::runtime::PackedFunc set_input_, run_, get_output_;
  std::vector<int> indices_;
  int number_ = 0;
};

#endif  // MACHINE_H_
