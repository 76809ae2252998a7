#include "trainyard/io/pytorch/kineto_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kComputeStream = 7, kFirstTransferStream = 20;
/// Time from an event's start on the host to its kernel, and the longest host time: it ends before the next kernel
/// starts.
constexpr Nanoseconds kLead{1000};

class KinetoWriter {
 public:
  KinetoWriter(const Problem& problem, const Placement& placement, const Timeline& timeline, DeviceId rank,
               std::ostream& out)
      : problem_(problem), placement_(placement), timeline_(timeline), rank_(rank), out_(out) {}

  void write() {
    const std::string device = detail::json_string(problem_.cluster().device(rank_).kind);
    // Its readers search for "rank": with the blank after it.
    text_ = fmt::format(
        "{{\"schemaVersion\": 1, \"deviceProperties\": [{{\"id\": {}, \"name\": {}}}],\n\"distributedInfo\": "
        "{{\"backend\": "
        "\"nccl\", \"rank\": {}, \"world_size\": {}}}, \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": "
        "0,\n\"traceEvents\": [",
        rank_.index(), device, rank_.index(), problem_.device_count());
    name_process(host(), "python", "CPU");
    name_process(rank_.index(), "python", fmt::format("GPU {}", rank_.index()));
    mark(0, Nanoseconds{0}, timeline_.makespan + kLead);
    for (const OpId op : problem_.ops())
      if (placement_[op] == rank_) add_op(op);
    add_transfers();
    mark(1, timeline_.makespan + kLead, Nanoseconds{1});
    out_ << text_ << "\n]}\n";
  }

 private:
  std::size_t host() const { return 1'000'000 + rank_.index(); }

  void next() {
    text_ += text_.ends_with('[') ? "\n" : ",\n";
    detail::pass_on(text_, out_);
  }
  void name_process(std::size_t pid, std::string_view name, const std::string& label) {
    for (const auto& [key, what, value] :
         {std::tuple{"process_name", "name", std::string{name}}, {"process_labels", "labels", label}}) {
      next();
      text_ += fmt::format(
          "{{\"ph\": \"M\", \"name\": \"{}\", \"ts\": 0, \"pid\": {}, \"tid\": 0, \"args\": {{\"{}\": \"{}\"}}}}", key,
          pid, what, value);
    }
  }
  void event(std::string_view category, std::string_view name, std::size_t pid, std::size_t tid, Nanoseconds start,
             Nanoseconds duration, const std::string& arguments) {
    next();
    text_ += fmt::format("{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": ", category);
    detail::append_json(text_, name);
    text_ += fmt::format(", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, \"args\": {{{}}}}}", pid, tid,
                         detail::microseconds(start), detail::microseconds(duration), arguments);
  }
  void mark(int number, Nanoseconds start, Nanoseconds duration) {
    event("user_annotation", fmt::format("ProfilerStep#{}", number), host(), kComputeStream, start, duration,
          fmt::format("\"External id\": {}, \"Ev Idx\": {}", number + 1, number));
  }
  /// Writes the host's events for an op or transfer, and the kernel.
  void launch(std::string_view op, std::string_view kernel, std::size_t stream, Span span, const std::string& more) {
    const std::size_t number = ++launches_;
    const Nanoseconds duration = span.end - span.start, host_time = std::min(duration, kLead);
    const std::string ids = fmt::format("\"External id\": {}, \"correlation\": {}", number + 2, number);
    event(
        "cpu_op", op, host(), stream, span.start, host_time,
        fmt::format("\"External id\": {}, \"Ev Idx\": {}, \"Record function id\": {}", number + 2, number + 1, number));
    event("cuda_runtime", "cudaLaunchKernel", host(), stream, span.start + Nanoseconds{host_time.count / 4},
          Nanoseconds{host_time.count / 2}, ids + ", \"cbid\": 211");
    event("kernel", kernel, rank_.index(), stream, span.start + kLead, duration,
          ids + fmt::format(", \"device\": {}, \"context\": 1, \"stream\": {}{}", rank_.index(), stream, more));
  }
  void add_op(OpId op) {
    const Span& span = timeline_.ops[op];
    if (span.start == span.end) return;
    const std::string& type = problem_.graph().type(op);
    launch(problem_.graph().name(op), type.empty() ? problem_.graph().name(op) : std::string_view{type}, kComputeStream,
           span, "");
  }
  void add_transfers() {
    std::vector<const Transfer*> own;
    for (const Transfer& each : timeline_.transfers)
      if (each.start != each.end &&
          (each.from == rank_ || each.to == rank_ || std::ranges::count(each.also_to, rank_) > 0))
        own.push_back(&each);
    sort_by(own, &Transfer::start);
    std::vector<Nanoseconds> streams;  // time at which each is free again
    for (const Transfer* const each : own) {
      const auto free = std::ranges::find_if(streams, [&](Nanoseconds end) { return end <= each->start; });
      const auto stream = static_cast<std::size_t>(free - streams.begin());
      if (free == streams.end()) streams.emplace_back();
      streams[stream] = each->end;
      const bool sends = each->from == rank_;
      launch(sends ? "nccl:send" : "nccl:recv", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
             kFirstTransferStream + stream, {each->start, each->end},
             fmt::format(
                 ", \"Collective name\": \"{}\", \"In msg nelems\": {}, \"Out msg nelems\": {}, \"dtype\": \"Byte\", "
                 "\"Group size\": 2, \"Src Rank\": {}, \"Dst Rank\": {}",
                 sends ? "send" : "recv", each->bytes.count, each->bytes.count, each->from.index(),
                 (sends ? each->to : rank_).index()));
    }
  }

  const Problem& problem_;
  const Placement& placement_;
  const Timeline& timeline_;
  const DeviceId rank_;
  std::ostream& out_;
  std::string text_;
  std::size_t launches_ = 0;
};

}  // namespace

void write_kineto(const Problem& problem, const Placement& placement, const Timeline& timeline, DeviceId rank,
                  std::ostream& out) {
  KinetoWriter{problem, placement, timeline, rank, out}.write();
}

}  // namespace trainyard
