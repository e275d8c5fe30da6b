#include "train/loop/loop_state.hpp"

#include "base/hash.hpp"

namespace trainctl::train {

std::string RunDigest::hex() const {
  if (!is_whole_) return "";
  Hasher hasher;
  for (const std::uint64_t digest : of_epochs_) hasher.add(digest);
  return hasher.hex();
}

void RunDigest::memorise(Memo& memo) {
  memo.value("epochs", &of_epochs_);
  memo.value("is_whole", &is_whole_);
}

}  // namespace trainctl::train
