// A virtual machine of TVM's Relax, which runs one call at a time.
#ifndef MACHINE_H_
#define MACHINE_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/base.h>

#define BOOL_TYPE {kDLBool, 8, 1}
#include "checked_files.h"
#include "loader_examples.h"

namespace ffi = tvm::ffi;

// A file in memory. All processes that map it share its pages; changes stay within this process.
struct MappedFile {
  explicit MappedFile(const std::string& path) {
    int file = open(path.c_str(), O_RDONLY);
    struct stat status {};
    if (file >= 0 && fstat(file, &status) == 0) {
      size = static_cast<size_t>(status.st_size);
      begin = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
    }
    if (file >= 0) close(file);
    if (begin == MAP_FAILED) throw std::runtime_error(path + " cannot be mapped.");
  }

  void AllocData(DLTensor* tensor) { tensor->data = begin + offset; }
  void FreeData(DLTensor*) { munmap(begin, size); }

  char* begin = static_cast<char*>(MAP_FAILED);
  size_t size = 0, offset = 0;
};

inline ffi::Tensor MapArray(const std::string& path) {
  MappedFile file(path);
  try {
    Array array;
    file.offset = ReadHeader(std::string_view(file.begin, file.size), &array);
    DLDataType type = TypeNamed(array.type).type;
    // To read beyond the end of a mapping ends the process.
    if (file.offset + BytesOf(array.shape, type) != file.size) {
      throw std::runtime_error(path + " has another size than its array; run build_model.py again.");
    }
    return ffi::Tensor::FromNDAlloc(file, ffi::ShapeView(array.shape.data(), array.shape.size()), type,
                                    DLDevice{kDLCPU, 0});
  } catch (...) {
    file.FreeData(nullptr);
    throw;
  }
}

// The library of a network, whose constants all machines share, and the weights of a function that are beside it.
struct Weights {
  Weights(const Built& built, const std::string& function)
      : library(ffi::Module::LoadFromFile(built.Path("network.so"))), function(function) {
    if (!built.Has("weights.json")) return;
    auto names = ffi::json::Parse(built.Read("weights.json")).cast<ffi::Map<ffi::String, ffi::Array<ffi::String>>>();
    for (const ffi::String& name : names.at(function)) {
      tensors.push_back(MapArray(built.Path("constants/" + std::string(name) + ".npy")));
    }
  }

  ffi::Module library;
  std::string function;
  std::vector<ffi::Tensor> tensors;
};

class Machine {
 public:
  Machine(const Weights& weights, const std::vector<Input>&)
      : machine_(weights.library->GetFunction("vm_load_executable").value()().cast<ffi::Module>()),
        weights_(weights.tensors) {
    const int kPooledAllocator = 2;
    machine_->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, kPooledAllocator);
    function_ = machine_->GetFunction(weights.function).value();
  }

  std::vector<Array> Run(const std::vector<Array>& arrays) {
    std::vector<ffi::Tensor> tensors;
    std::vector<ffi::AnyView> arguments;
    for (const Array& array : arrays) {
      FreeMemory memory{AlignedCopy(array)};
      tensors.push_back(ffi::Tensor::FromNDAlloc(memory, ffi::ShapeView(array.shape.data(), array.shape.size()),
                                                 TypeNamed(array.type).type, DLDevice{kDLCPU, 0}));
    }
    for (const ffi::Tensor& tensor : tensors) arguments.emplace_back(tensor);
    for (const ffi::Tensor& tensor : weights_) arguments.emplace_back(tensor);
    ffi::Any result;
    function_.CallPacked(ffi::PackedArgs(arguments.data(), arguments.size()), &result);
    std::vector<Array> outputs;
    Flatten(result, &outputs);
    return outputs;
  }

 private:
  struct FreeMemory {
    void* memory;
    void AllocData(DLTensor* tensor) { tensor->data = memory; }
    void FreeData(DLTensor*) { std::free(memory); }
  };

  // One tensor, or nested tuples of them.
  static void Flatten(const ffi::Any& value, std::vector<Array>* outputs) {
    if (auto tensor = value.try_cast<ffi::Tensor>()) {
      ffi::ShapeView shape = tensor->shape();
      outputs->push_back(ToArray(tensor->data_ptr(), shape.data(), shape.size(), tensor->dtype()));
      return;
    }
    for (const ffi::Any& each : value.cast<ffi::Array<ffi::Any>>()) Flatten(each, outputs);
  }

  ffi::Module machine_;
  ffi::Function function_;
  std::vector<ffi::Tensor> weights_;
};

#endif  // MACHINE_H_
