#pragma once

#include "base/error.hpp"

#include <string>
#include <utility>

namespace trainctl::data {

/// A file of the data set is another than it was when the run began. Error(data), and yet no damage
/// of one sample: to replace it would make the batches depend on when the file was changed.
class ChangedFile final : public Error {
 public:
  explicit ChangedFile(std::string message) : Error(ErrorKind::data, std::move(message)) {}
};

/// Whether `error` says that a sample is damaged, for which another may take its place.
inline bool is_damage(const Error& error) {
  return error.kind() == ErrorKind::data && dynamic_cast<const ChangedFile*>(&error) == nullptr;
}

}  // namespace trainctl::data
