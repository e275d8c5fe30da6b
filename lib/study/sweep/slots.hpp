#pragma once

#include <string>
#include <vector>

namespace trainctl::study {

/// What one of the runs that train side by side may use.
struct Share {
  int slot = 0;
  std::vector<int> cores;         // empty: any
  std::vector<std::string> gpus;  // as CUDA_VISIBLE_DEVICES names them; empty: as they are
};

/// The cores and GPUs of this machine among runs that train side by side. One at a time has all.
class Slots {
 public:
  /// `cores` are those that may be used, `quota` how many of them there is time for; `gpus` empty:
  /// none is to be shared out.
  Slots(int jobs, std::vector<int> cores, double quota, std::vector<std::string> gpus);

  /// For a run that trains on so many GPUs, or on none: those with the fewest runs. There has to be
  /// a slot that is free.
  Share take(int gpus);
  void give_back(const Share& share);

 private:
  [[nodiscard]] std::vector<int> cores_of(int slot) const;

  std::vector<bool> taken_;
  std::vector<int> cores_;
  double quota_;
  std::vector<std::string> gpus_;
  std::vector<int> runs_;  // of each GPU
};

}  // namespace trainctl::study
