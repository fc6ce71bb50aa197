// Calls one loaded network from several threads: threads FOLDER THREADS CALLS. Prints the number of wrong calls.
#include <atomic>
#include <iostream>
#include <thread>

#include "network.h"

int main(int, char** argv) {
  Built built(argv[1], TVM_VERSION);
  Network network(built, "main", std::stoi(argv[2]));
  Examples examples = ReadExamples(built, "examples");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < std::stoi(argv[2]); ++thread) {
    threads.emplace_back([&, thread] {
      // Each thread has inputs of its own: outputs of another thread's call must not be taken for its own.
      std::vector<Array> inputs = examples.inputs;
      for (Array& array : inputs) {
        float* values = reinterpret_cast<float*>(array.bytes.data());
        for (size_t i = 0; i < array.bytes.size() / 4; ++i) values[i] *= 1 + thread;
      }
      std::vector<Array> wanted = network(inputs);
      for (int call = 0; call < std::stoi(argv[3]); ++call) {
        try {
          if (network(inputs)[0].bytes != wanted[0].bytes) ++wrong;
        } catch (const std::exception&) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::cout << wrong << "\n";
  std::vector<std::vector<Array>> others(3, examples.inputs);
  others[0][0].shape[0] = 8;
  others[1][0].bytes.resize(16);
  others[2][0].type = ">f4";
  for (const std::vector<Array>& inputs : others) {
    try {
      network(inputs);
    } catch (const std::invalid_argument& error) {
      std::cout << error.what() << "\n";
    }
  }
}
