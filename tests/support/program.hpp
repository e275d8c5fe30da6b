#pragma once

#include "base/clock.hpp"
#include "base/json.hpp"

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

/// What one run of trainctl did.
struct ProgramRun {
  int exit_code = 0;       // 128 + signal where a signal ended it
  bool timed_out = false;  // it was killed at the limit
  double wall_s = 0;
  std::string out;
  std::string err;

  /// stdout as the JSON document that --json promises; throws where it is none.
  [[nodiscard]] trainctl::Json json() const { return trainctl::Json::parse(out); }
};

struct ProgramOptions {
  std::map<std::string, std::string> environment =
      {};                             // added to ours; NO_COLOR and COLUMNS are always removed
  std::filesystem::path folder = {};  // where it runs; empty: the current folder
  double timeout_s = 120;
};

/// trainctl as a child process in a group of its own, its output in temporary files. Killed with
/// its group if the object ends first.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments, ProgramOptions options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// What it has written so far.
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;
  void signal(int number) const;
  /// Until it ends or the limit passes.
  ProgramRun wait();

 private:
  ProgramOptions options_;
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  double started_ = 0;
};

/// trainctl from start to end.
ProgramRun run_program(const std::vector<std::string>& arguments, ProgramOptions options = {});
