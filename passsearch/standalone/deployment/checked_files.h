// The files of a built network, compared with their SHA-256 before they are used, and what the build needs to run.
// The Python loader does the same (checked_files.py).
#ifndef CHECKED_FILES_H_
#define CHECKED_FILES_H_

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// FIPS 180-4.
class Sha256 {
 public:
  void Add(const char* bytes, size_t size) {
    total_ += size;
    while (size > 0) {
      size_t part = std::min(size, sizeof(block_) - used_);
      std::memcpy(block_ + used_, bytes, part);
      used_ += part, bytes += part, size -= part;
      if (used_ == sizeof(block_)) AddBlock();
    }
  }

  std::string Hex() {
    uint64_t bits = 8 * total_;
    Add("\x80", 1);
    while (used_ != 56) Add("", 1);
    char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(bits >> (56 - 8 * i));
    Add(length, 8);
    std::string text;
    for (uint32_t word : state_) {
      for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
    }
    return text;
  }

 private:
  static uint32_t Rotate(uint32_t word, int places) { return (word >> places) | (word << (32 - places)); }

  void AddBlock() {
    static const uint32_t kConstants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t words[64];
    for (int i = 0; i < 16; ++i) {
      const unsigned char* byte = block_ + 4 * i;
      words[i] = uint32_t{byte[0]} << 24 | uint32_t{byte[1]} << 16 | uint32_t{byte[2]} << 8 | uint32_t{byte[3]};
    }
    for (int i = 16; i < 64; ++i) {
      uint32_t low = words[i - 15], high = words[i - 2];
      words[i] = words[i - 16] + (Rotate(low, 7) ^ Rotate(low, 18) ^ (low >> 3)) + words[i - 7] +
                 (Rotate(high, 17) ^ Rotate(high, 19) ^ (high >> 10));
    }
    std::array<uint32_t, 8> s = state_;
    for (int i = 0; i < 64; ++i) {
      uint32_t first = s[7] + (Rotate(s[4], 6) ^ Rotate(s[4], 11) ^ Rotate(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + kConstants[i] + words[i];
      uint32_t second = (Rotate(s[0], 2) ^ Rotate(s[0], 13) ^ Rotate(s[0], 22)) +
                        ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
    }
    for (int i = 0; i < 8; ++i) state_[i] += s[i];
    used_ = 0;
  }

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char block_[64];
  size_t used_ = 0;
  uint64_t total_ = 0;
};

// One input of a function; an open size has a name in place of a number, and `*` stands for any shape.
struct Input {
  std::string name;
  std::string type;
  std::vector<std::string> shape;
};

class Built {
 public:
  // Reads the digests and the conditions; throws if this processor or this TVM is another one than the build's.
  Built(const std::string& folder, const std::string& tvm_version) : folder_(folder) {
    std::ifstream sums(folder + "/SHA256SUMS");
    if (!sums) throw std::runtime_error(folder + "/SHA256SUMS is missing; run build_model.py first.");
    for (std::string line; std::getline(sums, line);) {
      if (line.size() > 66) digests_[line.substr(66)] = line.substr(0, 64);
    }
    std::istringstream conditions(Read("conditions.txt"));
    for (std::string line; std::getline(conditions, line);) AddCondition(line, tvm_version);
  }

  // Returns the path of a file that is as it was built.
  std::string Path(const std::string& name) const {
    Sha256 digest;
    std::ifstream file = Open(name);
    std::vector<char> block(1 << 20);
    while (file.read(block.data(), block.size()) || file.gcount() > 0) {
      digest.Add(block.data(), static_cast<size_t>(file.gcount()));
    }
    Require(name, &digest);
    return folder_ + "/" + name;
  }

  // Returns the content of a file that is as it was built.
  std::string Read(const std::string& name) const {
    std::ostringstream content;
    content << Open(name).rdbuf();
    Sha256 digest;
    digest.Add(content.str().data(), content.str().size());
    Require(name, &digest);
    return content.str();
  }

  // Returns whether a file is there or was when the folder was built; `Path` refuses a file that was not.
  bool Has(const std::string& name) const {
    return digests_.count(name) > 0 || std::ifstream(folder_ + "/" + name).good();
  }

  const std::vector<Input>& Inputs(const std::string& function) const {
    auto found = functions_.find(function);
    if (found != functions_.end()) return found->second;
    std::string names;
    for (const auto& each : functions_) names += (names.empty() ? "" : ", ") + each.first;
    throw std::runtime_error(folder_ + " has no function " + function + "; name one of " + names + ".");
  }

 private:
  std::ifstream Open(const std::string& name) const {
    if (!digests_.count(name)) {
      throw std::runtime_error(folder_ + "/SHA256SUMS has no digest of " + name + "; run build_model.py again.");
    }
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    if (!file) throw std::runtime_error(folder_ + "/" + name + " is missing; run build_model.py again.");
    return file;
  }

  void Require(const std::string& name, Sha256* digest) const {
    if (digest->Hex() != digests_.at(name)) {
      throw std::runtime_error(folder_ + "/" + name +
                               " has changed since it was made (another SHA-256); run build_model.py again.");
    }
  }

  void AddCondition(const std::string& line, const std::string& tvm_version) {
    std::istringstream words(line);
    std::string key, value;
    words >> key >> value;
    if (key == "tvm" && value.compare(0, tvm_version.size(), tvm_version) != 0) {
      throw std::runtime_error(folder_ + " was built by TVM " + value + ", and this program is compiled for " +
                               tvm_version + "; compile it anew, or run build_model.py with that TVM.");
    }
    if (key == "device" && value != "cpu") {
      throw std::runtime_error(folder_ + " was built for " + value + ", which run_model.py loads.");
    }
    if (key == "processor") CheckProcessor(value, &words);
    if (key == "function") functions_[value];
    if (key == "input") functions_[value].push_back(ReadInput(&words));
  }

  static Input ReadInput(std::istringstream* words) {
    Input input;
    std::string shape;
    *words >> input.type >> shape;
    std::getline(*words >> std::ws, input.name);
    std::istringstream sizes(shape.substr(1, shape.size() - 2));
    for (std::string size; std::getline(sizes, size, ',');) input.shape.push_back(size);
    return input;
  }

  void CheckProcessor(const std::string& architecture, std::istringstream* words) const {
    utsname system;
    uname(&system);
    std::set<std::string> own = Features();
    std::string lacking = architecture == system.machine ? "" : architecture;
    for (std::string feature; lacking.empty() && *words >> feature;) {
      if (!own.empty() && !own.count(feature)) lacking = feature;
    }
    if (lacking.empty()) return;
    throw std::runtime_error(folder_ + " was built for a processor with " + lacking +
                             ", which this one lacks; tune and export for this processor, or run build_model.py with "
                             "--target.");
  }

  static std::set<std::string> Features() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
      if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
      std::istringstream words(line.substr(line.find(':') + 1));
      std::set<std::string> features;
      for (std::string word; words >> word;) features.insert(word);
      return features;
    }
    return {};
  }

  std::string folder_;
  std::map<std::string, std::string> digests_;
  std::map<std::string, std::vector<Input>> functions_;
};

#endif  // CHECKED_FILES_H_
