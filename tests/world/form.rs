//! The forms of a page, submitted without JavaScript.

/// A form: its target and its fields in order.
#[derive(Debug)]
pub struct Form {
    pub action: String,
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    tag: String,
    name: String,
    kind: String,
    value: String,
}

impl Form {
    /// Returns the forms of a page that are submitted with POST.
    pub fn all(page: &str) -> Vec<Self> {
        page.split("<form").skip(1).map(|rest| Self::read(rest.split("</form").next().unwrap())).collect()
    }

    fn read(text: &str) -> Self {
        let opening = text.split('>').next().unwrap();
        assert_eq!(attribute(opening, "method").to_ascii_lowercase(), "post", "{text}");
        let tags = text.split('<').skip(1).map(|rest| rest.split('>').next().unwrap());
        let fields = tags
            .filter(|tag| tag.starts_with("input") || tag.starts_with("button"))
            .map(|tag| Field {
                tag: tag.split_whitespace().next().unwrap().to_owned(),
                name: attribute(tag, "name"),
                kind: attribute(tag, "type"),
                value: attribute(tag, "value"),
            })
            .collect();
        Self { action: attribute(opening, "action"), fields }
    }

    /// Returns the fields that are submitted when `entries` (part of a field's name, or its type; the text) are filled
    /// in, and the button whose value contains `button` is pressed.
    pub fn filled(&self, entries: &[(&str, &str)], button: &str) -> Vec<(String, String)> {
        let typed = |field: &Field| {
            let entry = entries.iter().find(|(key, _)| field.name.contains(key) || field.kind == *key);
            entry.map_or_else(|| field.value.clone(), |(_, text)| (*text).to_owned())
        };
        let is_button = |field: &Field| field.tag == "button" || field.kind == "submit";
        self.fields
            .iter()
            .filter(|field| !field.name.is_empty())
            .filter(|field| !is_button(field) || field.value.contains(button))
            .map(|field| (field.name.clone(), if is_button(field) { field.value.clone() } else { typed(field) }))
            .collect()
    }
}

fn attribute(tag: &str, name: &str) -> String {
    let value = tag.split_once(&format!("{name}=\"")).map(|(_, rest)| rest.split('"').next().unwrap_or_default());
    value.unwrap_or_default().replace("&amp;", "&").replace("&#38;", "&")
}
