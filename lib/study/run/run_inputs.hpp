#pragma once

#include "report/record/run_record.hpp"
#include "spec/experiment/task.hpp"
#include "study/run/manifest.hpp"
#include "study/run/run_start.hpp"

// What a start writes into the folder of its run, for the workers and for people.

namespace trainctl::study {

/// config.yaml as it was written, and config.resolved.yaml. Throws Error(resource), as do all here.
void write_config(const Start& start, const fs::path& folder);

/// The workers' task; none for plain training. That of an earlier start goes.
void write_task(const spec::Task& task, const fs::path& folder);

/// Names the folder of the experiment that a run's config was made of, where that lies elsewhere,
/// as the configs of a sweep's runs do.
inline constexpr const char* kSourceFolder = "TRAINCTL_SOURCE_FOLDER";

/// The folder of the experiment as a person has written it, whose git state a manifest tells.
fs::path source_folder(const fs::path& config_file);

/// What a manifest tells before any worker has said a word; without time, plug-ins and threads.
ManifestInput manifest_before(const Start& start);

/// manifest.json, with what the workers have told by now.
void write_manifest(ManifestInput input, const report::RunRecord& record, const fs::path& folder);

/// A worker maps safetensors alone: what else the weights may be is read here, once for all ranks.
/// Throws also what the reader does of a file that cannot be used.
void import_weights(const RunRequest& request, const fs::path& folder);

}  // namespace trainctl::study
