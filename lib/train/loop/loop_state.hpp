#pragma once

#include "base/state_archive.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::train {

/// The digest of every training batch of a run, from those of its epochs. They are kept one by one:
/// a hash under way could not be put down.
class RunDigest {
 public:
  void add(std::uint64_t of_epoch) { of_epochs_.push_back(of_epoch); }
  /// The pixels of an epoch were never seen: the run has no digest.
  void miss() { is_whole_ = false; }
  /// XXH3, 16 hex digits; empty where an epoch was missed.
  [[nodiscard]] std::string hex() const;
  void memorise(Memo& memo);

 private:
  std::vector<std::uint64_t> of_epochs_;
  bool is_whole_ = true;
};

}  // namespace trainctl::train
