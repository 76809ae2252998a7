#pragma once

#include <cstddef>

/// Limits on what an input may request, so that a small file or argument cannot take gigabytes or minutes. Larger
/// requests are refused with a message before any allocation. Studies stay below the limits: time runs out first.
namespace trainyard::limits {

/// Devices of a cluster given as a fabric, which stores no routes. About the size of the largest machines in existence.
inline constexpr std::size_t kDevices = std::size_t{1} << 17;
/// Devices of a cluster with a stored route per pair: 2^22 routes take 160 MB. Larger machines must be fabrics.
inline constexpr std::size_t kRoutedDevices = std::size_t{1} << 11;
/// Links of all these routes in total, at 8 bytes each. A star of kRoutedDevices devices needs a quarter of them.
inline constexpr std::size_t kRouteLinks = std::size_t{1} << 25;
/// Devices times directions of links: finding the routes of one device visits every direction. Some seconds.
inline constexpr std::size_t kRouteSteps = std::size_t{1} << 28;
/// Ops made by all rewrites of a schedule together, and their inputs and dependencies: half a gigabyte.
inline constexpr std::size_t kRewrittenOps = std::size_t{1} << 20;
inline constexpr std::size_t kRewrittenReads = std::size_t{1} << 23;
/// This multiple of the graph's size is allowed as well, up to the next two limits (5 GB): the largest published plans
/// need it (GPT of 10^12 parameters on 512 GPUs with 512 microbatches: 5.5 million ops).
inline constexpr std::size_t kRewrittenTimes = 1'024;
inline constexpr std::size_t kMostRewrittenOps = 6'000'000;
inline constexpr std::size_t kMostRewrittenReads = 24'000'000;
/// Ops of all steps of a simulation of several steps, unless the steps are few: 2 GB.
inline constexpr std::size_t kStepOps = 2'000'000;
/// Columns of an integer program, and numbers in the tables of a MiniZinc model: about a gigabyte of text.
inline constexpr std::size_t kColumns = 2'000'000;
inline constexpr std::size_t kTableNumbers = 200'000'000;
/// Rows of a study, which are computed one at a time.
inline constexpr std::size_t kStudyRows = 1'000'000'000;
/// Devices of a profile, which describes one machine.
inline constexpr std::size_t kProfiledDevices = 1'000;
/// Bytes of an input file; of a compressed input after decompression, as a few megabytes can expand to many (a large
/// file may expand by up to kCompression; graphs expand by 6 to 24); of a TOML file, whose parsing takes thirty times
/// its size.
inline constexpr std::size_t kInput = std::size_t{1} << 32;
inline constexpr std::size_t kUncompressedInput = std::size_t{1} << 30;
inline constexpr std::size_t kCompression = 50;
inline constexpr std::size_t kToml = std::size_t{1} << 25;
/// Dots in a TOML key: the parser recurses once per dot. Clusters and studies use none.
inline constexpr std::size_t kTomlDots = 16;

}  // namespace trainyard::limits
