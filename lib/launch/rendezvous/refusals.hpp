#pragma once

#include <string>
#include <vector>

namespace trainctl::launch {

/// Sentences about strangers, for a log that they cannot flood: a few in ten seconds, and then how
/// many there were besides.
class Refusals {
 public:
  void add(std::string sentence, double now);
  /// Closes a period that is over.
  void see(double now);
  std::vector<std::string> take();

 private:
  std::vector<std::string> sentences_;
  double period_end_ = 0;
  int in_period_ = 0;
};

}  // namespace trainctl::launch
