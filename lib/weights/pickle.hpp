#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trainctl::weights {

/// The hint for a file that contains more than weights.
inline constexpr const char* kSaveAdvice =
    "save the weights alone in Python: torch.save(model.state_dict(), \"weights.pth\")";

/// The kinds of values in a pickle. `other` is a value that is never used, such as a float.
enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  text,
  tuple,
  list,
  dict,
  type,
  storage,
  tensor,
  other
};

using PickleId = std::uint32_t;

/// One value. Values refer to each other by index, so a pickle that contains itself is harmless.
struct PickleValue {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0;     // storage: number of elements; tensor: offset in elements
  std::string_view text = {};   // type: its name; storage: its key
  std::string_view dtype = {};  // of a storage and its type, in safetensors notation
  // Dict: keys and values alternately. Tensor: storage, sizes and strides.
  std::vector<PickleId> items = {};
};

/// The values of a pickle; `root` is the index of the top-level object.
struct Pickle {
  std::vector<PickleValue> values;
  PickleId root = 0;

  [[nodiscard]] const PickleValue& operator[](PickleId id) const { return values[id]; }
};

/// Parses the pickle (protocol 2) of a state dict as written by torch.save, without calling
/// anything. One allowlist contains ordered dicts, tensors, parameters, sizes and storages; a
/// second one contains settings that frameworks save with the weights, which become `other`. All
/// other globals are rejected. Time and memory are linear in the size of `bytes`. Throws
/// Error(checkpoint) with the offset; the views point into `bytes`.
Pickle read_pickle(std::string_view bytes);

}  // namespace trainctl::weights
