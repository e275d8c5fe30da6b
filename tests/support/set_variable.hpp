#pragma once

#include <cstdlib>
#include <optional>
#include <string>

/// Sets an environment variable as long as this object lives.
class SetVariable {
 public:
  SetVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~SetVariable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  SetVariable(const SetVariable&) = delete;
  SetVariable& operator=(const SetVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};
