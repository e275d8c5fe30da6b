#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::data {

/// Many names in one piece of memory: a million strings would cost an allocation each.
class NameList {
 public:
  NameList() = default;
  /// As blob() and ends() gave them; throws nothing, valid() tells.
  NameList(std::string blob, std::vector<std::uint64_t> ends)
      : blob_(std::move(blob)), ends_(std::move(ends)) {}

  void add(std::string_view name) {
    blob_.append(name);
    ends_.push_back(blob_.size());
  }
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const {
    const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(blob_).substr(begin, ends_[i] - begin);
  }
  [[nodiscard]] bool valid() const {
    std::uint64_t begin = 0;
    for (const std::uint64_t end : ends_) {
      if (end < begin) return false;
      begin = end;
    }
    return begin == blob_.size();
  }
  [[nodiscard]] const std::string& blob() const { return blob_; }
  [[nodiscard]] const std::vector<std::uint64_t>& ends() const { return ends_; }

 private:
  std::string blob_;
  std::vector<std::uint64_t> ends_;
};

}  // namespace trainctl::data
