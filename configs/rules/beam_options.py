"""The names of Beam's options and the values they take, to find typos without importing Beam.

tests/configs/test_beam_options.py compares them with the installed Beam.
"""

from __future__ import annotations

_FLAGS = """
allow_non_deterministic_key_coders allow_unsafe_triggers auto_unique_labels direct_embed_docker_python
disable_beartype enable_artifact_caching enable_bucket_read_metric_counter enable_bucket_write_metric_counter
enable_gcsio_blob_generation enable_hot_key_logging enable_streaming_engine exclude_infer_dataclass_field_type
flink_submit_uber_jar force_cloudpickle_deterministic_coders hdfs_full_urls no_auth
no_direct_runner_use_stacked_bundle no_gcsio_throttling_counter no_pipeline_type_check no_save_main_session
no_use_public_ips no_wait_until_finish performance_runtime_type_check profile_cpu profile_memory
profiler_stop_after_crash requirements_cache_only_sources runtime_type_check s3_disable_ssl save_main_session
spark_submit_uber_jar streaming update use_public_ips use_transform_service
"""
_STRINGS = """
application_id artifact_endpoint artifacts_dir azure_connection_string azure_managed_identity_client_id
beam_services blob_service_endpoint bootstrap_servers cloud_build_machine_type create_from_snapshot
dataflow_endpoint dataflow_job_file dataflow_kms_key default_sdk_harness_log_level direct_test_splits disk_type
docker_registry_push_url dry_run environment_cache_millis environment_config environment_type flink_job_server_jar
flink_master gbek gcs_custom_audit_entries gcs_custom_audit_entry hdfs_host hdfs_port hdfs_user
impersonate_service_account jar_cache_dir job_endpoint job_name job_server_java_launcher
kafka_streams_job_server_jar machine_type maven_repository_url min_cpu_platform network on_success_matcher
output_executable_path prebuild_sdk_container_base_image prebuild_sdk_container_engine prism_beam_version_override
prism_location profile_location profile_temp_location profiler_agent project pubsub_root_url region
requirements_cache requirements_file runner s3_access_key_id s3_api_version s3_endpoint_url s3_region_name
s3_secret_access_key s3_session_token s3_verify sdk_container_image sdk_harness_log_level_overrides sdk_location
sdk_worker_parallelism service_account_email setup_file spark_job_server_jar spark_master_url spark_rest_url
staging_location subnetwork temp_location template_location transform_name_mapping type_check_additional
update_compatibility_version user_agent worker_disk_type worker_harness_container_image worker_machine_type
worker_region worker_zone zone
"""
_INTEGERS = """
artifact_port direct_num_workers direct_runner_bundle_repeat disk_provisioned_iops disk_provisioned_throughput_mibps
disk_size_gb element_processing_timeout_minutes expansion_port job_port job_server_timeout max_cache_memory_usage_mb
max_num_workers max_parallelism num_workers number_of_worker_harness_threads parallelism
profile_postprocess_interval_sec profile_upload_interval_sec profiler_stop_after_sec wait_until_finish_duration
"""
_LISTS = """
beam_plugin beam_plugins dataflow_service_option dataflow_service_options environment_option environment_options
experiment experiments extra_package extra_packages file_to_stage files_to_stage gcp_oauth_scope gcp_oauth_scopes
job_server_jvm_properties job_server_jvm_property label labels profiler_extra_arg profiler_extra_args
profiler_extra_env_var profiler_extra_env_vars resource_hint resource_hints sdk_harness_container_image_overrides
"""
_NUMBERS = """
profile_sample_rate
"""
_CHOICES = {
    "autoscaling_algorithm": ("NONE", "THROUGHPUT_BASED"),
    "direct_running_mode": ("in_memory", "multi_threading", "multi_processing"),
    "flexrs_goal": ("COST_OPTIMIZED", "SPEED_OPTIMIZED"),
    "flink_version": ("1.19", "1.20", "2.0", "2.1", "2.2"),
    "pickle_library": ("cloudpickle", "default", "dill", "dill_unsafe"),
    "prism_log_kind": ("dev", "json", "text", "console"),
    "prism_log_level": ("debug", "info", "warn", "error"),
    "spark_version": ("3",),
    "type_check_strictness": ("ALL_REQUIRED", "DEFAULT_TO_ANY"),
}

BOOLEAN, INTEGER, NUMBER, STRING = "true or false", "integer", "number", "string"
STRINGS = "string or list of strings"
BEAM_OPTIONS: dict[str, str | tuple[str, ...]] = {
    **dict.fromkeys(_FLAGS.split(), BOOLEAN),
    **dict.fromkeys(_INTEGERS.split(), INTEGER),
    **dict.fromkeys(_NUMBERS.split(), NUMBER),
    **dict.fromkeys(_LISTS.split(), STRINGS),
    **dict.fromkeys(_STRINGS.split(), STRING),
    **_CHOICES,
}
"""The values of each option of Beam's Python SDK; a tuple lists the allowed strings."""
_FLINK = """
allow_non_restored_state attached_mode auto_balance_write_files_sharding_enabled auto_watermark_interval
checkpoint_timeout_millis checkpointing_interval checkpointing_mode disable_metrics enable_heap_dumps
enable_stable_input_drain environment_expiration_millis execution_mode_for_batch execution_retry_delay
externalized_checkpoints_enabled fail_on_checkpointing_errors faster_copy file_input_split_max_size_m_b
finish_bundle_before_checkpointing flink_conf_dir force_slot_sharing_group force_unaligned_checkpoint_enabled
job_check_interval_in_secs latency_tracking_interval load_balance_bundles max_bundle_size max_bundle_time_mills
min_pause_between_checkpoints num_concurrent_checkpoints number_of_execution_retries object_reuse operator_chaining
re_iterable_group_by_key_result remote_heap_dump_location report_checkpoint_duration retain_docker_containers
retain_externalized_checkpoints_on_cancellation savepoint_path semi_persist_dir shutdown_sources_after_idle_ms
state_backend state_backend_factory state_backend_storage_path unaligned_checkpoint_enabled
use_data_stream_for_batch
"""
JOB_SERVER_OPTIONS = {"flink": frozenset(_FLINK.split())}
"""Options known only to a runner's job server, which accepts them by name too."""
