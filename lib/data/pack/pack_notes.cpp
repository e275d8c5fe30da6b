#include "data/pack/pack_notes.hpp"

#include "base/error.hpp"
#include "data/formats/byte_codec.hpp"

namespace trainctl::data {

std::string encode_notes(const PackNotes& notes) {
  ByteWriter out;
  out.put(std::uint64_t{notes.class_names.size()});
  for (const std::string& name : notes.class_names) out.put_text(name);
  out.put(std::uint64_t{notes.left_out.size()});
  for (const SkippedSample& sample : notes.left_out) {
    out.put_text(sample.name);
    out.put_text(sample.reason);
  }
  out.put_text(notes.origin.stage);
  out.put(std::uint64_t{notes.origin.marks.size()});
  for (const PathMark& mark : notes.origin.marks) {
    out.put_text(mark.path);
    out.put(mark.mtime_ns);
    out.put(mark.size);
  }
  return out.bytes();
}

PackNotes decode_notes(std::string_view bytes, const std::string& name) {
  ByteReader in(bytes);
  PackNotes notes;
  for (auto left = in.get<std::uint64_t>(); left > 0 && in.ok(); --left)
    notes.class_names.push_back(in.get_text());
  for (auto left = in.get<std::uint64_t>(); left > 0 && in.ok(); --left) {
    SkippedSample& sample = notes.left_out.emplace_back();
    sample.name = in.get_text();
    sample.reason = in.get_text();
  }
  notes.origin.stage = in.get_text();
  for (auto left = in.get<std::uint64_t>(); left > 0 && in.ok(); --left) {
    PathMark& mark = notes.origin.marks.emplace_back();
    mark.path = in.get_text();
    mark.mtime_ns = in.get<std::int64_t>();
    mark.size = in.get<std::uint64_t>();
  }
  ENSURE(data, in.ok() && in.at_end(), "{} is damaged: its notes contradict themselves", name);
  return notes;
}

}  // namespace trainctl::data
