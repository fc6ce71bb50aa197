// A built network as a function that several threads may call at once. For your own program; run_model.cc is an example.
#ifndef NETWORK_H_
#define NETWORK_H_

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "machine.h"

class Network {
 public:
  // Loads one function of what build_model.py has written, once its files are found unchanged.
  // As many calls as `machines` run at once; by default as many as this process may use processors. A call runs on all
  // cores unless TVM_NUM_THREADS says another number of threads.
  explicit Network(const std::string& folder, const std::string& function = "main", unsigned machines = 0)
      : Network(Built(folder, TVM_VERSION), function, machines) {}

  Network(const Built& built, const std::string& function, unsigned machines = 0)
      : inputs_(built.Inputs(function)),
        weights_(built, function),
        free_places_(machines ? machines : static_cast<unsigned>(Processors().size())) {
    // By itself TVM takes half of the processors on x86, because they could be two for each core.
    if (!std::getenv("OMP_NUM_THREADS")) setenv("TVM_NUM_THREADS", std::to_string(Cores()).c_str(), 0);
    free_.push_back(std::make_unique<Machine>(weights_, inputs_));
  }

  const std::vector<Input>& inputs() const { return inputs_; }

  // Runs the network once on inputs in order. Throws std::invalid_argument for inputs that it does not take.
  std::vector<Array> operator()(const std::vector<Array>& arrays) {
    Check(arrays);
    Place place(this);
    std::unique_ptr<Machine> machine = Borrow();
    std::vector<Array> outputs = machine->Run(arrays);
    // A machine that has thrown may hold half a call, so it is not used again.
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(machine));
    return outputs;
  }

 private:
  // One of the calls that run at once.
  class Place {
   public:
    explicit Place(Network* network) : network_(network) {
      std::unique_lock<std::mutex> lock(network_->mutex_);
      network_->has_place_.wait(lock, [this] { return network_->free_places_ > 0; });
      --network_->free_places_;
    }
    ~Place() {
      std::lock_guard<std::mutex> lock(network_->mutex_);
      ++network_->free_places_;
      network_->has_place_.notify_one();
    }

   private:
    Network* network_;
  };

  std::unique_ptr<Machine> Borrow() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Machine> machine = std::move(free_.back());
        free_.pop_back();
        return machine;
      }
    }
    std::lock_guard<std::mutex> lock(making_);
    return std::make_unique<Machine>(weights_, inputs_);
  }

  void Check(const std::vector<Array>& arrays) const {
    if (arrays.size() != inputs_.size()) {
      throw std::invalid_argument("The network takes " + std::to_string(inputs_.size()) + " inputs, and got " +
                                  std::to_string(arrays.size()));
    }
    std::map<std::string, std::string> sizes;  // open sizes are the same wherever they have one name
    for (size_t i = 0; i < arrays.size(); ++i) {
      std::vector<std::string> actual;
      for (int64_t size : arrays[i].shape) actual.push_back(std::to_string(size));
      std::vector<std::string> wanted = inputs_[i].shape;
      if (wanted == std::vector<std::string>{"*"}) wanted = actual;
      for (size_t axis = 0; axis < std::min(wanted.size(), actual.size()); ++axis) {
        bool is_open = wanted[axis].find_first_not_of("0123456789") != std::string::npos;
        if (is_open) wanted[axis] = sizes.emplace(wanted[axis], actual[axis]).first->second;
      }
      const ElementType& type = TypeNamed(arrays[i].type);
      if (actual != wanted || type.name != inputs_[i].type) {
        throw std::invalid_argument("Input " + inputs_[i].name + " must be " + inputs_[i].type +
                                    Text(inputs_[i].shape) + ", and is " + type.name + Text(actual));
      }
      size_t bytes = BytesOf(arrays[i].shape, type.type);
      if (bytes != arrays[i].bytes.size()) {
        throw std::invalid_argument("Input " + inputs_[i].name + " must have " + std::to_string(bytes) +
                                    " bytes, and has " + std::to_string(arrays[i].bytes.size()));
      }
    }
  }

  static std::string Text(const std::vector<std::string>& shape) {
    std::string text;
    for (const std::string& size : shape) text += (text.empty() ? "" : ", ") + size;
    return "[" + text + "]";
  }

  // The numbers of the processors that this process may use.
  static std::vector<int> Processors() {
    cpu_set_t processors;
    CPU_ZERO(&processors);
    if (sched_getaffinity(0, sizeof(processors), &processors) != 0) return {0};
    std::vector<int> numbers;
    for (int number = 0; number < CPU_SETSIZE; ++number) {
      if (CPU_ISSET(number, &processors)) numbers.push_back(number);
    }
    return numbers;
  }

  static size_t Cores() {
    std::set<std::string> cores;
    for (int number : Processors()) {
      std::string name = std::to_string(number), siblings;
      std::ifstream file("/sys/devices/system/cpu/cpu" + name + "/topology/thread_siblings_list");
      cores.insert(std::getline(file, siblings) ? siblings : name);
    }
    return std::min(cores.size(), static_cast<size_t>(std::max(1.0, std::min(Quota(), 1e6))));
  }

  // The number of processors whose time the control groups of this process leave it.
  static double Quota() {
    double quota = std::numeric_limits<double>::infinity();
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      // "0::PATH" in the second version, "NUMBER:KINDS:PATH" in the first.
      size_t first = line.find(':'), second = line.find(':', first + 1);
      if (first == std::string::npos || second == std::string::npos) continue;
      std::string kinds = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
      if (!kinds.empty() && ("," + kinds + ",").find(",cpu,") == std::string::npos) continue;
      std::string mount = kinds.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
      if (path.find('/') != 0) path.clear();
      while (true) {  // up to the outermost group, whose path is empty
        if (path.find("..") == std::string::npos) quota = std::min(quota, QuotaOf(mount + path));
        if (path.empty()) break;
        path.resize(path.rfind('/'));
      }
    }
    return quota;
  }

  static double QuotaOf(const std::string& group) {
    double quota = 0, period = 0;
    if (!(std::ifstream(group + "/cpu.max") >> quota >> period)) {
      std::ifstream(group + "/cpu.cfs_quota_us") >> quota;
      std::ifstream(group + "/cpu.cfs_period_us") >> period;
    }
    return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
  }

  std::vector<Input> inputs_;
  Weights weights_;
  std::mutex mutex_, making_;
  std::condition_variable has_place_;
  unsigned free_places_;
  std::vector<std::unique_ptr<Machine>> free_;
};

#endif  // NETWORK_H_
