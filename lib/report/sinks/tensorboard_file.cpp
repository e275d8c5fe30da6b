#include "report/sinks/tensorboard_file.hpp"

#include "base/hash.hpp"
#include "base/machine/procfs.hpp"
#include "report/tensorboard.pb.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

namespace trainctl::report::tensorboard {
namespace {

// The generated messages; this code is in the inner namespace `report::tensorboard`.
namespace pb = trainctl::tensorboard;

constexpr int kRgb = 3;

pb::Event event_at(Moment moment) {
  pb::Event event;
  event.set_wall_time(moment.wall_time);
  event.set_step(moment.step);
  return event;
}

pb::Summary::Value& value_of(pb::Event& event, const std::string& tag) {
  pb::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  return value;
}

void set_plugin(pb::Summary::Value& value, const std::string& name, const std::string& content) {
  pb::SummaryMetadata& metadata = *value.mutable_metadata();
  metadata.mutable_plugin_data()->set_plugin_name(name);
  metadata.mutable_plugin_data()->set_content(content);
  metadata.set_data_class(pb::DATA_CLASS_TENSOR);
}

void put_one(pb::Tensor& tensor, pb::DataType type) {
  tensor.set_dtype(type);
  tensor.mutable_tensor_shape()->add_dim()->set_size(1);
}

std::string hparams_event(double wall_time, const std::string& tag, pb::HParamsData data) {
  data.set_version(0);
  pb::Event event = event_at({wall_time, 0});
  pb::Summary::Value& value = value_of(event, "_hparams_/" + tag);
  set_plugin(value, "hparams", data.SerializeAsString());
  put_one(*value.mutable_tensor(), pb::DT_FLOAT);  // unused by readers, but required
  value.mutable_tensor()->add_float_val(0);
  return event.SerializeAsString();
}

pb::HParamType type_of(const HParam& value) {
  if (std::holds_alternative<double>(value)) return pb::DATA_TYPE_FLOAT64;
  return std::holds_alternative<bool>(value) ? pb::DATA_TYPE_BOOL : pb::DATA_TYPE_STRING;
}

void put(const HParam& from, pb::HParamValue& to) {
  if (const auto* number = std::get_if<double>(&from)) to.set_number_value(*number);
  if (const auto* truth = std::get_if<bool>(&from)) to.set_bool_value(*truth);
  if (const auto* text = std::get_if<std::string>(&from)) to.set_string_value(*text);
}

void fill(pb::Histogram& histogram, const Histogram& values) {
  histogram.set_min(values.min);
  histogram.set_max(values.max);
  histogram.set_num(values.num);
  histogram.set_sum(values.sum);
  histogram.set_sum_squares(values.sum_squares);
  const std::size_t bins = values.counts.size();
  const double width = (values.max - values.min) / static_cast<double>(bins);
  for (std::size_t i = 0; i < bins; ++i) {
    const bool is_last = i + 1 == bins;
    histogram.add_bucket_limit(is_last ? values.max
                                       : values.min + width * static_cast<double>(i + 1));
    histogram.add_bucket(values.counts[i]);
  }
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i)
    bytes.push_back(static_cast<char>((number >> (8 * i)) & 0xff));
  return bytes;
}

std::string checksum_of(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return little_endian<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

/// Returns the seconds in the name of an event file; -1 for other files.
std::int64_t seconds_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  std::int64_t seconds = -1;
  const char* begin = name.data() + kPrefix.size();
  const auto [end, failure] = std::from_chars(begin, name.data() + name.size(), seconds);
  return failure == std::errc() && end != begin ? seconds : -1;
}

std::int64_t newest_in(const fs::path& folder) {
  std::int64_t newest = -1;
  for_each_entry(folder, [&](const fs::path& entry) {
    newest = std::max(newest, seconds_of(entry.filename().string()));
  });
  return newest;
}

std::string plain(std::string host) {
  std::ranges::replace_if(
      host,
      [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.';
      },
      '_');
  return host.empty() ? "localhost" : host;
}

}  // namespace

std::string version_event(double wall_time) {
  pb::Event event = event_at({wall_time, 0});
  event.set_file_version("brain.Event:2");
  return event.SerializeAsString();
}

std::string start_event(Moment moment) {
  pb::Event event = event_at(moment);
  event.mutable_session_log()->set_status(pb::SessionLog::START);
  return event.SerializeAsString();
}

std::string scalars_event(Moment moment, const Scalars& scalars) {
  pb::Event event = event_at(moment);
  for (const auto& [tag, number] : scalars)
    value_of(event, tag).set_simple_value(static_cast<float>(number));
  return event.SerializeAsString();
}

std::string text_event(Moment moment, const std::string& tag, const std::string& text) {
  pb::Event event = event_at(moment);
  pb::Summary::Value& value = value_of(event, tag + "/text_summary");
  set_plugin(value, "text", "");
  put_one(*value.mutable_tensor(), pb::DT_STRING);
  value.mutable_tensor()->add_string_val(text);
  return event.SerializeAsString();
}

std::string image_event(Moment moment, const std::string& tag, const Picture& picture) {
  pb::Event event = event_at(moment);
  pb::Summary::Image& image = *value_of(event, tag).mutable_image();
  image.set_width(picture.width);
  image.set_height(picture.height);
  image.set_colorspace(kRgb);
  image.set_encoded_image_string(picture.png);
  return event.SerializeAsString();
}

std::string histogram_event(Moment moment, const std::string& tag, const Histogram& values) {
  if (values.counts.empty()) return {};
  pb::Event event = event_at(moment);
  fill(*value_of(event, tag).mutable_histo(), values);
  return event.SerializeAsString();
}

std::vector<std::string> hparams_events(double wall_time, const HParams& params) {
  pb::HParamsData experiment;
  pb::HParamsData session;
  experiment.mutable_experiment()->set_time_created_secs(wall_time);
  session.mutable_session_start_info()->set_group_name(params.group);
  session.mutable_session_start_info()->set_start_time_secs(wall_time);
  for (const auto& [name, value] : params.values) {
    pb::HParamInfo& info = *experiment.mutable_experiment()->add_hparam_infos();
    info.set_name(name);
    info.set_type(type_of(value));
    pb::SessionStart::Entry& entry = *session.mutable_session_start_info()->add_hparams();
    entry.set_key(name);
    put(value, *entry.mutable_value());
  }
  for (const std::string& tag : params.metrics)
    experiment.mutable_experiment()->add_metric_infos()->mutable_name()->set_tag(tag);
  return {hparams_event(wall_time, "experiment", std::move(experiment)),
          hparams_event(wall_time, "session_start_info", std::move(session))};
}

std::string hparams_end_event(double wall_time, Success success) {
  pb::HParamsData data;
  data.mutable_session_end_info()->set_end_time_secs(wall_time);
  data.mutable_session_end_info()->set_status(
      success == Success::yes ? pb::SessionEnd::STATUS_SUCCESS : pb::SessionEnd::STATUS_FAILURE);
  return hparams_event(wall_time, "session_end_info", std::move(data));
}

std::string record_of(std::string_view bytes) {
  const std::string length = little_endian<std::uint64_t>(bytes.size());
  std::string record = length + checksum_of(length);
  record += bytes;
  return record + checksum_of(bytes);
}

fs::path next_file(const fs::path& folder, double wall_time, const std::string& host) {
  const std::int64_t seconds =
      std::max(static_cast<std::int64_t>(wall_time), newest_in(folder) + 1);
  return folder / fmt::format("{}{:010}.{}.{}.0", kPrefix, seconds, plain(host), ::getpid());
}

bool has_files(const fs::path& folder) { return newest_in(folder) >= 0; }

EventFile::EventFile(fs::path path, double wall_time)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644)) {
  ENSURE(resource, fd_.valid(), "cannot write {}: {}", path_.string(), std::strerror(errno));
  append(version_event(wall_time));
}

void EventFile::append(std::string_view event) {
  struct stat before {};
  ENSURE(resource, ::fstat(fd_.get(), &before) == 0, "cannot write {}: {}", path_.string(),
         std::strerror(errno));
  try {
    write_all(fd_.get(), record_of(event), path_.string());
  } catch (const Error&) {
    (void)::ftruncate(fd_.get(), before.st_size);
    throw;
  }
}

void EventFile::sync() {
  ENSURE(resource, ::fdatasync(fd_.get()) == 0, "cannot sync {}: {}", path_.string(),
         std::strerror(errno));
}

}  // namespace trainctl::report::tensorboard
