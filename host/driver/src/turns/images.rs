//! The images in the result of a tool that a component provides. Their content decides whether a model is
//! shown them: a provider refuses a request with an image that is none.

use strata_base::files::blob::Blobs;
use strata_base::text::media_type::raster_image_type;
use strata_core::record::conversation::Part;
use strata_core::record::message::Draft;
use strata_core::record::turn::CallEffect;
use strata_core::record::work::Work;
use strata_core::team::Role;
use strata_services::models::{NOT_AN_IMAGE, describe_media};

/// Returns whether the result of a call is told to the model of a role: that of a tool which the model
/// called, unless it is the answer of the role.
pub(crate) fn tells_model(role: &Role, work: Work) -> bool {
    let Work::ToolCall { nested, tool, .. } = work else {
        return false;
    };
    let known = role.tool_loop().and_then(|tools| tools.tool(tool));
    let is_answer = known.is_some_and(|tool| tool.target.effect == CallEffect::Ends);
    nested.is_empty() && !is_answer
}

/// Gives the images that an attempt created the media types of their content. What is no image becomes a
/// text that says so. `created` has the bytes.
pub(crate) fn check_images(output: &mut Draft, created: &Blobs) {
    for part in &mut output.parts {
        let Part::Image(media) = part else { continue };
        let blob = media.blob().and_then(|(digest, _)| created.get(digest));
        let Some(bytes) = blob else { continue };
        match raster_image_type(bytes) {
            Some(found) => media.media_type = found.to_owned(),
            None => *part = Part::Text(format!("{} {NOT_AN_IMAGE}", describe_media(media))),
        }
    }
}

#[cfg(test)]
mod tests {
    use strata_base::files::blob::digest_of;
    use strata_core::record::conversation::{Media, MediaSource};

    use super::*;

    #[test]
    fn the_content_of_a_created_image_decides_what_a_model_is_given() {
        let mut created = Blobs::new();
        let mut image = |media_type: &str, bytes: &[u8]| {
            let digest = digest_of(bytes);
            created.insert(digest.clone(), bytes.into());
            let size = bytes.len() as u64;
            Part::Image(Media {
                media_type: media_type.into(),
                name: None,
                source: MediaSource::Blob { digest, size },
            })
        };
        let (right, wrong) = (image("image/gif", b"GIF89a"), image("image/png", b"GIF87a"));
        let none = image("image/svg+xml", b"<svg/>");
        let elsewhere = Part::Image(Media {
            media_type: "image/png".into(),
            name: None,
            source: MediaSource::Url("https://example.com/a.png".into()),
        });
        let mut output = Draft {
            parts: vec![right.clone(), wrong, none, elsewhere.clone()],
            ..Draft::default()
        };
        check_images(&mut output, &created);
        assert_eq!((&output.parts[0], &output.parts[3]), (&right, &elsewhere));
        let corrected = output.parts[1]
            .media()
            .map(|media| media.media_type.as_str());
        assert_eq!(corrected, Some("image/gif"));
        let told = "[image/svg+xml, 6 bytes] not shown: its content is no image of a type that models accept";
        assert_eq!(output.parts[2], Part::Text(told.into()));
    }
}
