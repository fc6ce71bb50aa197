// Example inputs and expected outputs of a deployed network, as build_model.py has written them (files of numpy).
#ifndef LOADER_EXAMPLES_H_
#define LOADER_EXAMPLES_H_

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <dlpack/dlpack.h>

#include "checked_files.h"

// One array of a .npy file; little-endian and in C order, as numpy writes it on this machine.
struct Array {
  std::string type;  // numpy's name, such as <f4
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

struct Examples {
  double tolerance = 0;            // largest deviation of an output, as a share of its largest magnitude
  std::vector<std::string> names;  // of the inputs, in order
  std::vector<Array> inputs;
  std::vector<Array> outputs;
};

inline std::string TextAfter(const std::string& header, const std::string& key, char first, char last) {
  size_t begin = header.find(first, header.find("'" + key + "'") + key.size() + 2);
  return header.substr(begin + 1, header.find(last, begin + 1) - begin - 1);
}

// Reads type and shape, and returns where the elements begin. Format: numpy/lib/format.py, version 1.0.
inline size_t ReadHeader(std::string_view content, Array* array) {
  if (content.size() < 10 || content.substr(1, 5) != "NUMPY") throw std::runtime_error("An array is no .npy file");
  size_t length = static_cast<unsigned char>(content[8]) + 256 * static_cast<unsigned char>(content[9]);
  std::string header(content.substr(10, length));
  array->type = TextAfter(header, "descr", '\'', '\'');
  std::istringstream sizes(TextAfter(header, "shape", '(', ')'));
  for (std::string size; std::getline(sizes, size, ',');) {
    if (size.find_first_of("0123456789") != std::string::npos) array->shape.push_back(std::stoll(size));
  }
  return 10 + length;
}

inline Array ReadArray(const std::string& content) {
  Array array;
  size_t begin = ReadHeader(content, &array);
  array.bytes.assign(content.begin() + begin, content.end());
  return array;
}

// Reads the examples below a folder of the built network.
inline Examples ReadExamples(const Built& built, const std::string& folder) {
  Examples examples;
  std::istringstream index(built.Read(folder + "/index.txt"));
  size_t outputs = 0;
  index >> examples.tolerance >> outputs;
  std::string name;
  std::getline(index, name);
  while (std::getline(index, name)) {
    std::string number = std::to_string(examples.names.size());
    examples.inputs.push_back(ReadArray(built.Read(folder + "/input-" + number + ".npy")));
    examples.names.push_back(name);
  }
  for (size_t i = 0; i < outputs; ++i) {
    examples.outputs.push_back(ReadArray(built.Read(folder + "/output-" + std::to_string(i) + ".npy")));
  }
  return examples;
}

struct ElementType {
  const char* numpy;  // in a .npy file
  const char* name;
  DLDataType type;
};

inline const std::vector<ElementType>& ElementTypes() {
  static const std::vector<ElementType> kTypes = {
      {"<f4", "float32", {kDLFloat, 32, 1}}, {"<f8", "float64", {kDLFloat, 64, 1}}, {"<f2", "float16", {kDLFloat, 16, 1}},
      {"<i8", "int64", {kDLInt, 64, 1}},     {"<i4", "int32", {kDLInt, 32, 1}},     {"<i2", "int16", {kDLInt, 16, 1}},
      {"|i1", "int8", {kDLInt, 8, 1}},       {"|u1", "uint8", {kDLUInt, 8, 1}},     {"<u8", "uint64", {kDLUInt, 64, 1}},
      {"<u4", "uint32", {kDLUInt, 32, 1}},   {"<u2", "uint16", {kDLUInt, 16, 1}},   {"|b1", "bool", BOOL_TYPE}};
  return kTypes;
}

inline const ElementType& TypeNamed(const std::string& numpy) {
  for (const ElementType& each : ElementTypes()) {
    if (numpy == each.numpy) return each;
  }
  throw std::invalid_argument("This loader has no type " + numpy);
}

inline size_t BytesOf(const std::vector<int64_t>& shape, DLDataType type) {
  size_t bytes = (type.bits * type.lanes + 7) / 8;
  for (int64_t size : shape) bytes *= static_cast<size_t>(size);
  return bytes;
}

// Returns a copy of an array in TVM's memory.
inline Array ToArray(const void* data, const int64_t* shape, size_t dimensions, DLDataType type) {
  Array array;
  for (const ElementType& each : ElementTypes()) {
    if (each.type.code == type.code && each.type.bits == type.bits && type.lanes == 1) array.type = each.numpy;
  }
  array.shape.assign(shape, shape + dimensions);
  const char* begin = static_cast<const char*>(data);
  array.bytes.assign(begin, begin + BytesOf(array.shape, type));
  return array;
}

template <typename T>
double Deviation(const T* actual, const T* expected, size_t size) {
  double largest = 0, magnitude = 1e-30;
  for (size_t i = 0; i < size; ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    if (actual[i] == expected[i]) continue;
    double distance = std::fabs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    if (std::isnan(distance)) return INFINITY;
    largest = std::fmax(largest, distance);
  }
  for (size_t i = 0; i < size; ++i) {
    if (std::isfinite(expected[i])) magnitude = std::fmax(magnitude, std::fabs(static_cast<double>(expected[i])));
  }
  return largest / magnitude;
}

// Returns the deviation as a share of the largest magnitude; infinite for integers that differ.
inline double Deviation(const Array& actual, const Array& expected) {
  if (actual.shape != expected.shape || actual.type != expected.type || actual.bytes.size() != expected.bytes.size()) {
    throw std::runtime_error("The shape or the type of an output is another one");
  }
  const void *own = actual.bytes.data(), *bytes = expected.bytes.data();
  if (std::memcmp(own, bytes, expected.bytes.size()) == 0) return 0;
  if (expected.type == "<f4") {
    return Deviation(static_cast<const float*>(own), static_cast<const float*>(bytes), expected.bytes.size() / 4);
  }
  if (expected.type == "<f8") {
    return Deviation(static_cast<const double*>(own), static_cast<const double*>(bytes), expected.bytes.size() / 8);
  }
  return INFINITY;
}

// Copies are aligned to 64 bytes, as generated code reads whole vectors from the start of its arguments.
inline void* AlignedCopy(const Array& array) {
  size_t size = (array.bytes.size() + 63) / 64 * 64;
  void* memory = std::aligned_alloc(64, size ? size : 64);
  std::memcpy(memory, array.bytes.data(), array.bytes.size());
  return memory;
}

inline DLTensor ViewOf(const Array& array, void* memory) {
  DLTensor tensor{};
  tensor.data = memory;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int>(array.shape.size());
  tensor.dtype = TypeNamed(array.type).type;
  tensor.shape = const_cast<int64_t*>(array.shape.data());
  return tensor;
}

// Returns the last line that is not empty. TVM's messages begin with the call stack of its library.
inline std::string LastLine(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

// Prints the result and returns the exit status.
inline int Report(const std::vector<double>& deviations, double tolerance, double milliseconds) {
  double worst = 0;
  for (double each : deviations) worst = std::fmax(worst, each);
  std::cout << deviations.size() << " outputs deviate by " << worst << " of the largest value (" << tolerance
            << " is allowed); " << milliseconds << " ms an inference\n";
  return worst <= tolerance ? 0 : 1;
}

#endif  // LOADER_EXAMPLES_H_
