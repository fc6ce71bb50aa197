// Loads the network that build_model.py has built, runs it on the example inputs, and compares the outputs.
// Compile it with: python run_model.py --compile run_model
// Run it with:     ./run_model [FOLDER [FUNCTION]]

#include <chrono>

#include "network.h"

static int Run(const std::string& folder, const std::string& function) {
  Built built(folder, TVM_VERSION);
  Network network(built, function);
  Examples examples = ReadExamples(built, function == "main" ? "examples" : "examples/" + function);
  network(examples.inputs);  // the first run is slower
  auto start = std::chrono::steady_clock::now();
  std::vector<Array> outputs = network(examples.inputs);
  std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;

  if (outputs.size() != examples.outputs.size()) throw std::runtime_error("The number of outputs is another one");
  std::vector<double> deviations;
  for (size_t i = 0; i < outputs.size(); ++i) deviations.push_back(Deviation(outputs[i], examples.outputs[i]));
  return Report(deviations, examples.tolerance, elapsed.count());
}

int main(int argc, char** argv) {
  try {
    return Run(argc > 1 ? argv[1] : "built", argc > 2 ? argv[2] : "main");
  } catch (const std::exception& error) {
    std::cerr << LastLine(error.what()) << "\n";
    return 2;
  }
}
