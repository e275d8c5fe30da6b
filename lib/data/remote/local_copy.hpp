#pragma once

#include "base/error.hpp"
#include "data/core/dataset.hpp"

#include <cstdint>
#include <utility>

namespace trainctl::data {

/// The error, which met a sample's bytes; where they are a local copy, its words say of what, and
/// how to have it fetched anew.
Error with_copy_named(const Error& error, const Dataset& dataset, std::int64_t index);

/// Runs `body`, which looks into the bytes of a sample; an Error(data) that leaves it is as above.
template <class Body>
decltype(auto) looking_into(const Dataset& dataset, std::int64_t index, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || dataset.fetchable() == nullptr) throw;
    throw with_copy_named(error, dataset, index);
  }
}

}  // namespace trainctl::data
