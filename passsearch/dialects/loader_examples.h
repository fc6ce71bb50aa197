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
#include <vector>

#include <dlpack/dlpack.h>

#ifndef BOOL_TYPE
#error "Define BOOL_TYPE, the DLDataType of a boolean in this TVM"
#endif

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

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("Cannot read " + path + "; run build_model.py first");
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

inline std::string TextAfter(const std::string& header, const std::string& key, char first, char last) {
  size_t begin = header.find(first, header.find("'" + key + "'") + key.size() + 2);
  return header.substr(begin + 1, header.find(last, begin + 1) - begin - 1);
}

// Format: numpy/lib/format.py, version 1.0.
inline Array ReadArray(const std::string& path) {
  std::string content = ReadFile(path);
  if (content.size() < 10 || content.compare(1, 5, "NUMPY") != 0) throw std::runtime_error(path + " is no .npy file");
  size_t length = static_cast<unsigned char>(content[8]) + 256 * static_cast<unsigned char>(content[9]);
  std::string header = content.substr(10, length);
  Array array;
  array.type = TextAfter(header, "descr", '\'', '\'');
  std::istringstream sizes(TextAfter(header, "shape", '(', ')'));
  for (std::string size; std::getline(sizes, size, ',');) {
    if (size.find_first_of("0123456789") != std::string::npos) array.shape.push_back(std::stoll(size));
  }
  array.bytes.assign(content.begin() + 10 + length, content.end());
  return array;
}

inline Examples ReadExamples(const std::string& folder) {
  Examples examples;
  std::istringstream index(ReadFile(folder + "/index.txt"));
  size_t outputs = 0;
  index >> examples.tolerance >> outputs;
  std::string name;
  std::getline(index, name);
  while (std::getline(index, name)) {
    examples.inputs.push_back(ReadArray(folder + "/input-" + std::to_string(examples.names.size()) + ".npy"));
    examples.names.push_back(name);
  }
  for (size_t i = 0; i < outputs; ++i) {
    examples.outputs.push_back(ReadArray(folder + "/output-" + std::to_string(i) + ".npy"));
  }
  return examples;
}

inline DLDataType TypeOf(const Array& array) {
  static const struct {
    const char* name;
    DLDataType type;
  } kTypes[] = {{"<f4", {kDLFloat, 32, 1}}, {"<f8", {kDLFloat, 64, 1}}, {"<f2", {kDLFloat, 16, 1}},
                {"<i8", {kDLInt, 64, 1}},   {"<i4", {kDLInt, 32, 1}},   {"<i2", {kDLInt, 16, 1}},
                {"|i1", {kDLInt, 8, 1}},    {"|u1", {kDLUInt, 8, 1}},   {"<u8", {kDLUInt, 64, 1}},
                {"<u4", {kDLUInt, 32, 1}},  {"<u2", {kDLUInt, 16, 1}},  {"|b1", BOOL_TYPE}};
  for (const auto& each : kTypes) {
    if (array.type == each.name) return each.type;
  }
  throw std::runtime_error("This loader has no type " + array.type);
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
inline double Deviation(const void* actual, const Array& expected) {
  const void* bytes = expected.bytes.data();
  if (std::memcmp(actual, bytes, expected.bytes.size()) == 0) return 0;
  if (expected.type == "<f4") {
    return Deviation(static_cast<const float*>(actual), static_cast<const float*>(bytes), expected.bytes.size() / 4);
  }
  if (expected.type == "<f8") {
    return Deviation(static_cast<const double*>(actual), static_cast<const double*>(bytes), expected.bytes.size() / 8);
  }
  return INFINITY;
}

// Throws unless an output has the shape and the size of the expected one, which is then safe to compare.
inline void CheckShape(const int64_t* shape, size_t dimensions, DLDataType type, const Array& expected) {
  size_t bytes = (type.bits * type.lanes + 7) / 8;
  for (size_t i = 0; i < dimensions; ++i) bytes *= static_cast<size_t>(shape[i]);
  if (std::vector<int64_t>(shape, shape + dimensions) != expected.shape || bytes != expected.bytes.size()) {
    throw std::runtime_error("The shape or the type of an output is another one");
  }
}

// Copies are aligned to 64 bytes, as generated code reads whole vectors from the start of its arguments.
inline void* AlignedCopy(const Array& array) {
  size_t size = (array.bytes.size() + 63) / 64 * 64;
  void* memory = std::aligned_alloc(64, size ? size : 64);
  std::memcpy(memory, array.bytes.data(), array.bytes.size());
  return memory;
}

inline DLTensor ViewOf(Array* array, void* memory) {
  DLTensor tensor{};
  tensor.data = memory;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int>(array->shape.size());
  tensor.dtype = TypeOf(*array);
  tensor.shape = array->shape.data();
  return tensor;
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
