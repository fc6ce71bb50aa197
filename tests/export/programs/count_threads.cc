// Prints the number of tasks that TVM makes of one parallel loop, once a network is loaded: count_threads FOLDER.
#include <atomic>
#include <iostream>

#include <tvm/runtime/c_backend_api.h>

#include "network.h"

int main(int, char** argv) {
  Network network(argv[1]);
  std::atomic<int> tasks{0};
  TVMBackendParallelLaunch(
      [](int, TVMParallelGroupEnv* group, void* tasks) {
        *static_cast<std::atomic<int>*>(tasks) = group->num_task;
        return 0;
      },
      &tasks, 0);
  std::cout << tasks << "\n";
}
