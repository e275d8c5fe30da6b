#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trainctl::weights {

/// What to do about a file that holds more than weights.
inline constexpr const char* kSaveAdvice =
    "save the weights alone in Python: torch.save(model.state_dict(), \"weights.pth\")";

/// What a pickle may hold here. `other` is a value that nobody asks for, such as a float.
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

/// One value. Values are numbered and name each other, so that a pickle that holds itself is no
/// matter.
struct PickleValue {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0;  // of a storage its elements; of a tensor where it begins, in elements
  std::string_view text = {};   // of a type its name, of a storage its key
  std::string_view dtype = {};  // of a storage and its type, as safetensors calls it
  // Of a dict keys and values in turn; of a tensor its storage, sizes and strides.
  std::vector<PickleId> items = {};
};

struct Pickle {
  std::vector<PickleValue> values;
  PickleId root = 0;

  [[nodiscard]] const PickleValue& operator[](PickleId id) const { return values[id]; }
};

/// Reads the pickle (protocol 2) of a state dict as torch.save writes it. It calls nothing: a short
/// list of names stands for ordered dicts, tensors, parameters, sizes and storages, a second one
/// for settings that frameworks save with the weights and that nobody reads (kind `other`), and any
/// other name is refused. Takes time and memory in proportion to `bytes`. Throws Error(checkpoint)
/// with the byte; the views point into `bytes`.
Pickle read_pickle(std::string_view bytes);

}  // namespace trainctl::weights
